// Races: between the threads of a block, between blocks, between plain and atomic accesses.
#include "backends/simt/tests/harness.h"

namespace musaic::simt::testing {
namespace {

class RaceTest : public OnEveryTarget {};
MUSAIC_SIMT_EVERY_TARGET(RaceTest);

template <bool fixed>
__global__ void reverse(const float* in, float* out) {
  MUSAIC_SHARED(float[256], s);
  s[threadIdx.x] = in[threadIdx.x];  // PLANT(reverse-write)
  if (fixed) __syncthreads();
  out[threadIdx.x] = s[255 - threadIdx.x];  // PLANT(reverse-read)
}

TEST_P(RaceTest, MissingBarrier) {
  Array<float> in(256, 1.0f), out(256);
  MUSAIC_LAUNCH(reverse<false>, 1, 256, 0, Stream{}, in, out);
  const auto reports = take_reports();
  bool found = false;
  for (const Report& r : reports)
    if (r.finding == Finding::kSharedRace) {
      found = true;
      const int read = line_of(__FILE__, "reverse-read"), write = line_of(__FILE__, "reverse-write");
      EXPECT_TRUE((r.line == read && r.other_line == write) || (r.line == write && r.other_line == read))
          << r.text();
      EXPECT_EQ(r.kernel, "reverse<false>");
      EXPECT_NE(r.address, nullptr);
    }
  EXPECT_TRUE(found) << all_text(reports);
  MUSAIC_LAUNCH(reverse<true>, 1, 256, 0, Stream{}, in, out);
  expect_silence();
}

template <bool fixed>
__global__ void reused(float* out) {
  MUSAIC_SHARED(float[128], s);
  float sum = 0;
  for (int round = 0; round < 3; ++round) {
    s[threadIdx.x] = static_cast<float>(round);  // PLANT(reused-write)
    __syncthreads();
    sum += s[(threadIdx.x + 1) % 128];
    if (fixed) __syncthreads();
  }
  out[threadIdx.x] = sum;
}

TEST_P(RaceTest, WriteAfterReadAcrossRounds) {
  Array<float> out(128);
  MUSAIC_LAUNCH(reused<false>, 1, 128, 0, Stream{}, out);
  expect_finding(Finding::kSharedRace, "reused<false>", line_of(__FILE__, "reused-write"));
  MUSAIC_LAUNCH(reused<true>, 1, 128, 0, Stream{}, out);
  expect_silence();
}

template <bool fixed>
__global__ void warp_neighbours(float* out) {
  MUSAIC_SHARED(float[128], s);
  s[threadIdx.x] = 1.0f;
  if (fixed) __syncwarp();
  out[threadIdx.x] = s[threadIdx.x ^ 1];  // PLANT(warp-read)
}

TEST_P(RaceTest, MissingWarpSync) {
  Array<float> out(128);
  MUSAIC_LAUNCH(warp_neighbours<false>, 1, 128, 0, Stream{}, out);
  expect_finding(Finding::kSharedRace, "warp_neighbours<false>", 0);
  MUSAIC_LAUNCH(warp_neighbours<true>, 1, 128, 0, Stream{}, out);
  expect_silence();
}

__global__ void neighbouring_bytes(unsigned char* out) {
  MUSAIC_SHARED(unsigned char[128], s);
  s[threadIdx.x] = 1;
  out[threadIdx.x] = s[threadIdx.x];
  out[threadIdx.x] = 2;
}

TEST_P(RaceTest, NeighbouringBytesDoNotRace) {
  Array<unsigned char> out(128);
  MUSAIC_LAUNCH(neighbouring_bytes, 1, 128, 0, Stream{}, out);
  expect_silence();
}

template <bool fixed>
__global__ void through_global(float* scratch, float* out) {
  scratch[threadIdx.x] = 1.0f;
  if (fixed) {
    __syncthreads();
  } else {
    __syncthreads_lm();
  }
  out[threadIdx.x] = scratch[(threadIdx.x + 1) % 64];  // PLANT(light)
}

TEST_P(RaceTest, LightBarrierDoesNotOrderGlobalMemory) {
  Array<float> scratch(64), out(64);
  MUSAIC_LAUNCH(through_global<false>, 1, 64, 0, Stream{}, scratch, out);
  expect_finding(Finding::kGlobalRace, "through_global<false>", line_of(__FILE__, "light"));
  MUSAIC_LAUNCH(through_global<true>, 1, 64, 0, Stream{}, scratch, out);
  expect_silence();
}

template <bool fixed>
__global__ void light_shared(float* out) {
  MUSAIC_SHARED(float[64], s);
  s[threadIdx.x] = 1.0f;
  if (fixed) __syncthreads_lm();
  out[threadIdx.x] = s[(threadIdx.x + 1) % 64];
}
TEST_P(RaceTest, LightBarrierOrdersSharedMemory) {
  Array<float> out(64);
  MUSAIC_LAUNCH(light_shared<false>, 1, 64, 0, Stream{}, out);
  expect_finding(Finding::kSharedRace, "light_shared<false>", 0);
  MUSAIC_LAUNCH(light_shared<true>, 1, 64, 0, Stream{}, out);
  expect_silence();
}

template <bool fixed>
__global__ void count_blocks(int* counter) {
  if (threadIdx.x != 0) return;
  if (fixed) {
    atomicAdd(counter, 1);
  } else {
    *counter += 1;  // PLANT(blocks)
  }
}

TEST_P(RaceTest, BlocksOnOneCounter) {
  Array<int> counter(1, 0);
  MUSAIC_LAUNCH(count_blocks<false>, 8, 32, 0, Stream{}, counter);
  const Report r = expect_finding(Finding::kGlobalRace, "count_blocks<false>", line_of(__FILE__, "blocks"));
  EXPECT_NE(r.block, (Index3{0, 0, 0}));
  expect_at(r, r.block, {0, 0, 0});
  EXPECT_EQ(r.address, counter.data());
  counter.set({0});
  MUSAIC_LAUNCH(count_blocks<true>, 8, 32, 0, Stream{}, counter);
  EXPECT_EQ(counter.get()[0], 8);
  expect_silence();
}

template <bool fixed>
__global__ void plain_and_atomic(int* sum, int* out) {
  if (threadIdx.x == 0) atomicAdd(sum, 1);
  if (threadIdx.x == 1 && !fixed) out[blockIdx.x] = *sum;  // PLANT(plain-atomic)
  if (threadIdx.x == 1 && fixed) out[blockIdx.x] = atomicAdd(sum, 0);
}

TEST_P(RaceTest, PlainAgainstAtomic) {
  Array<int> sum(1, 0), out(4);
  MUSAIC_LAUNCH(plain_and_atomic<false>, 4, 32, 0, Stream{}, sum, out);
  const Report r =
      expect_finding(Finding::kGlobalRace, "plain_and_atomic<false>", line_of(__FILE__, "plain-atomic"));
  EXPECT_NE(r.message.find("atomically"), std::string::npos) << r.text();
  MUSAIC_LAUNCH(plain_and_atomic<true>, 4, 32, 0, Stream{}, sum, out);
  expect_silence();
}

template <bool fixed>
__global__ void shared_histogram(const int* in, int* out) {
  MUSAIC_SHARED(int[8], bins);
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  if (fixed) {
    atomicAdd(&bins[in[threadIdx.x]], 1);
  } else {
    bins[in[threadIdx.x]] += 1;  // PLANT(histogram)
  }
  __syncthreads();
  if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
}

TEST_P(RaceTest, SharedHistogram) {
  std::vector<int> values(128);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i % 8);
  Array<int> in(values), out(8);
  MUSAIC_LAUNCH(shared_histogram<false>, 1, 128, 0, Stream{}, in, out);
  expect_finding(Finding::kSharedRace, "shared_histogram<false>", line_of(__FILE__, "histogram"));
  MUSAIC_LAUNCH(shared_histogram<true>, 1, 128, 0, Stream{}, in, out);
  EXPECT_EQ(out.get(), std::vector<int>(8, 16));
  expect_silence();
}

__global__ void read_then_write(float* x, int shift) {
  const float v = x[(blockIdx.x * 32 + threadIdx.x + static_cast<unsigned>(shift)) % 256];
  x[blockIdx.x * 32 + threadIdx.x] = v;  // PLANT(halo)
}
TEST_P(RaceTest, HaloInPlace) {
  Array<float> x(256, 1.0f);
  MUSAIC_LAUNCH(read_then_write, 8, 32, 0, Stream{}, x, 32);
  expect_finding(Finding::kGlobalRace, "read_then_write", 0);
  MUSAIC_LAUNCH(read_then_write, 8, 32, 0, Stream{}, x, 0);
  expect_silence();
}

}  // namespace
}  // namespace musaic::simt::testing
