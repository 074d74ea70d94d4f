// Limits of launches.
#include "backends/simt/tests/harness.h"

namespace musaic::simt {
struct BrainFloat {
  std::uint16_t bits;
};
struct Fp8 {
  unsigned char bits;
};
template <>
inline constexpr Feature kFeatureOf<BrainFloat> = Feature::kBFloat16;
template <>
inline constexpr Feature kFeatureOf<Fp8> = Feature::kFp8;
}  // namespace musaic::simt

namespace musaic::simt::testing {
namespace {

class LaunchTest : public OnEveryTarget {};
MUSAIC_SIMT_EVERY_TARGET(LaunchTest);

__global__ void nothing() {}

void expect_limit(const char* text) {
  const Report r = expect_finding(Finding::kLaunchLimit, "nothing", 0);
  EXPECT_NE(r.message.find(text), std::string::npos) << r.text();
}

TEST_P(LaunchTest, BlocksAndGrids) {
  MUSAIC_LAUNCH(nothing, 1, 1024, 0, Stream{});
  expect_silence();
  MUSAIC_LAUNCH(nothing, 1, 1025, 0, Stream{});
  expect_limit("a block of 1025 x 1 x 1");
  MUSAIC_LAUNCH(nothing, 1, dim3(32, 32, 2), 0, Stream{});
  expect_limit("2048 threads, the target takes 1024");
  MUSAIC_LAUNCH(nothing, 1, 0, 0, Stream{});
  expect_limit("a block of 0 x 1 x 1");
  MUSAIC_LAUNCH(nothing, 0, 32, 0, Stream{});
  expect_limit("a grid of 0 x 1 x 1");
  MUSAIC_LAUNCH(nothing, dim3(0x80000000u), 1, 0, Stream{});
  expect_limit("2147483647 in x");
  if (current_target().max_grid[1] == 65535) {
    MUSAIC_LAUNCH(nothing, dim3(1, 65536), 1, 0, Stream{});
    expect_limit("65535 in y");
  }
  if (current_target().max_block[2] == 64) {
    MUSAIC_LAUNCH(nothing, 1, dim3(1, 1, 65), 0, Stream{});
    expect_limit("64 in z");
  }
}

TEST_P(LaunchTest, DynamicSharedMemory) {
  const auto most = static_cast<std::size_t>(current_target().max_shared_bytes);
  MUSAIC_LAUNCH(nothing, 1, 32, most, Stream{});
  expect_silence();
  MUSAIC_LAUNCH(nothing, 1, 32, most + 1, Stream{});
  expect_limit("bytes of dynamic shared memory");
  // The figures that kernels are tuned by.
  if (GetParam() == "simt:musa-mp22") {
    EXPECT_EQ(most, 72u * 1024);
  }
  if (GetParam() == "simt:musa-mp21") {
    EXPECT_EQ(most, 28u * 1024);
  }
}

struct Large {
  float values[8 * 1024];
};
__global__ void uses_32k(float* out) {
  MUSAIC_SHARED(Large, s);
  s.values[threadIdx.x] = 1.0f;
  out[threadIdx.x] = s.values[threadIdx.x];
}
TEST_P(LaunchTest, StaticSharedMemory) {
  Array<float> out(32);
  MUSAIC_LAUNCH(uses_32k, 1, 32, 0, Stream{}, out);
  if (GetParam() == "simt:musa-mp21") {
    const Report r = expect_finding(Finding::kLaunchLimit, "uses_32k", 0);
    EXPECT_NE(r.message.find("32768 bytes of static shared memory"), std::string::npos) << r.text();
  }
  expect_silence();
  MUSAIC_LAUNCH(uses_32k, 1, 32, static_cast<std::size_t>(current_target().max_shared_bytes) - 1024, Stream{},
                out);
  expect_finding(Finding::kLaunchLimit, "uses_32k", 0);
}

struct Parameters {
  char bytes[4100];
};
__global__ void takes(Parameters) {}
TEST_P(LaunchTest, Parameters) {
  MUSAIC_LAUNCH(takes, 1, 32, 0, Stream{}, Parameters{});
  const Report r = expect_finding(Finding::kLaunchLimit, "takes", 0);
  EXPECT_NE(r.message.find("4100 bytes of arguments"), std::string::npos) << r.text();
}

__global__ void __launch_bounds__(256) bounded(float* out) {
  MUSAIC_LAUNCH_BOUNDS(256);  // PLANT(bounds)
  out[threadIdx.x] = 1.0f;
}
TEST_P(LaunchTest, LaunchBounds) {
  Array<float> out(512);
  MUSAIC_LAUNCH(bounded, 1, 256, 0, Stream{}, out);
  expect_silence();
  MUSAIC_LAUNCH(bounded, 1, 257, 0, Stream{}, out);
  const Report r = expect_finding(Finding::kLaunchBounds, "bounded", line_of(__FILE__, "bounds"));
  EXPECT_NE(r.message.find("257 threads a block"), std::string::npos);
}

template <class T>
struct Program {
  T* data;
};
template <class T>
__global__ void generic(Program<T> p) {
  p.data[threadIdx.x] = T{};
}
TEST_P(LaunchTest, NumberFormats) {
  Array<BrainFloat> b(32);
  Array<Fp8> f(32);
  MUSAIC_LAUNCH(generic<BrainFloat>, 1, 32, 0, Stream{}, Program<BrainFloat>{b});
  if (GetParam() == "simt:musa-mp21") expect_finding(Finding::kFeature, "generic<BrainFloat>", 0);
  expect_silence();
  MUSAIC_LAUNCH(generic<Fp8>, 1, 32, 0, Stream{}, Program<Fp8>{f});
  if (GetParam() == "simt:musa-mp21" || GetParam() == "simt:musa-mp22" || GetParam() == "simt:hip")
    expect_finding(Finding::kFeature, "generic<Fp8>", 0);
  expect_silence();
}

TEST(Targets, UnknownNameIsNamed) {
  try {
    use_target("simt:volta");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("simt:musa-mp22"), std::string::npos);
  }
}

__global__ void stops() {
  if (threadIdx.x == 3) __trap();  // PLANT(trap)
}
MUSAIC_CONSTANT(float[1024], small_table) = {1, 2, 3};

void reads_constant(float* out) { out[threadIdx.x] = small_table[threadIdx.x]; }

TEST_P(LaunchTest, ConstantMemoryWithinTheLimit) {
  Array<float> out(4, -1.0f);
  MUSAIC_LAUNCH(reads_constant, 1, 4, 0, Stream{}, out.data());
  EXPECT_EQ(out.get(), (std::vector<float>{1, 2, 3, 0}));
}

TEST_P(LaunchTest, Trap) {
  MUSAIC_LAUNCH(stops, 1, 32, 0, Stream{});
  expect_at(expect_finding(Finding::kTrap, "stops", line_of(__FILE__, "trap")), {0, 0, 0}, {3, 0, 0});
}

}  // namespace
}  // namespace musaic::simt::testing
