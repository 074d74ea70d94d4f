// Planted bugs in single accesses: bounds, alignment, unwritten memory, memory of others.
#include "backends/simt/tests/harness.h"

namespace musaic::simt::testing {
namespace {

class MemoryTest : public OnEveryTarget {};
MUSAIC_SIMT_EVERY_TARGET(MemoryTest);

__global__ void store_up_to(float* p, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) p[i] = 1.0f;  // PLANT(global-bounds)
}

TEST_P(MemoryTest, GlobalBounds) {
  Array<float> p(100);
  MUSAIC_LAUNCH(store_up_to, 2, 64, 0, Stream{}, p, 101);
  const Report r = expect_finding(Finding::kGlobalBounds, "store_up_to", line_of(__FILE__, "global-bounds"));
  expect_at(r, {1, 0, 0}, {36, 0, 0});
  EXPECT_EQ(r.address, p.data() + 100);
  EXPECT_NE(r.message.find("0 bytes after the end of an allocation of 400 bytes"), std::string::npos)
      << r.text();
  MUSAIC_LAUNCH(store_up_to, 2, 64, 0, Stream{}, p, 100);
  expect_silence();
}

TEST_P(MemoryTest, UseAfterRelease) {
  auto* p = static_cast<float*>(allocate(400));
  release(p);
  MUSAIC_LAUNCH(store_up_to, 1, 32, 0, Stream{}, p, 4);
  const Report r = expect_finding(Finding::kGlobalBounds, "store_up_to", line_of(__FILE__, "global-bounds"));
  EXPECT_NE(r.message.find("freed"), std::string::npos) << r.text();
}

TEST_P(MemoryTest, BoundsOfSmallElements) {
  for (const int n : {1, 2, 3, 5, 7, 9}) {
    Array<float> p(n);
    MUSAIC_LAUNCH(store_up_to, 1, 32, 0, Stream{}, p, n);
    expect_silence();
    MUSAIC_LAUNCH(store_up_to, 1, 32, 0, Stream{}, p, n + 1);
    expect_finding(Finding::kGlobalBounds, "store_up_to", line_of(__FILE__, "global-bounds"));
  }
}

__global__ void copy_shared(float* p, int shift) {
  MUSAIC_SHARED(float[32], a);
  MUSAIC_SHARED(float[32], b);
  float* from = a;
  from[threadIdx.x] = 1.0f;
  b[threadIdx.x] = 2.0f;
  __syncthreads();
  p[threadIdx.x] = from[static_cast<int>(threadIdx.x) + shift] + b[0];  // PLANT(shared-bounds)
}

TEST_P(MemoryTest, SharedBoundsBetweenVariables) {
  Array<float> p(32);
  MUSAIC_LAUNCH(copy_shared, 1, 32, 0, Stream{}, p, 1);
  const Report r = expect_finding(Finding::kSharedBounds, "copy_shared", line_of(__FILE__, "shared-bounds"));
  expect_at(r, {0, 0, 0}, {31, 0, 0});
  MUSAIC_LAUNCH(copy_shared, 1, 32, 0, Stream{}, p, 0);
  expect_silence();
}

struct Tile {
  float values[8];
  float after;
};
__global__ void index_struct(float* p, int i) {
  MUSAIC_SHARED(Tile, tile);
  if (threadIdx.x == 0) tile.after = 0.0f;
  if (threadIdx.x == 0) tile.values[i] = 1.0f;  // PLANT(index-bounds)
  if (threadIdx.x == 0) p[0] = tile.after;
}

TEST_P(MemoryTest, IndexInsideStruct) {
  Array<float> p(1);
  MUSAIC_LAUNCH(index_struct, 1, 32, 0, Stream{}, p, 8);
  const Report r = expect_finding(Finding::kIndexBounds, "index_struct", line_of(__FILE__, "index-bounds"));
  expect_at(r, {0, 0, 0}, {0, 0, 0});
  MUSAIC_LAUNCH(index_struct, 1, 32, 0, Stream{}, p, 7);
  expect_silence();
}

__global__ void dynamic(float* p, int n) {
  MUSAIC_DYNAMIC_SHARED(float, s);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += 32) s[i] = 3.0f;  // PLANT(dynamic-bounds)
  __syncthreads();
  p[threadIdx.x] = s[threadIdx.x];
}

TEST_P(MemoryTest, DynamicShared) {
  Array<float> p(32);
  MUSAIC_LAUNCH(dynamic, 1, 32, 64 * sizeof(float), Stream{}, p, 65);
  expect_at(expect_finding(Finding::kSharedBounds, "dynamic", line_of(__FILE__, "dynamic-bounds")), {0, 0, 0},
            {0, 0, 0});
  MUSAIC_LAUNCH(dynamic, 1, 32, 64 * sizeof(float), Stream{}, p, 64);
  EXPECT_EQ(p.get(), std::vector<float>(32, 3.0f));
  expect_silence();
}

struct alignas(16) Float4 {
  float x, y, z, w;
};
__global__ void load_vector(const char* p, float* out, int shift) {
  const auto* q = reinterpret_cast<const Float4*>(p + shift);
  out[threadIdx.x] = q[threadIdx.x].y;  // PLANT(misaligned)
}
__global__ void load_shared_vector(float* out, int shift) {
  MUSAIC_SHARED(char[256], s);
  s[threadIdx.x] = 0;
  s[threadIdx.x + 32] = 0;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = *reinterpret_cast<const float*>(s + shift);  // PLANT(misaligned-shared)
}

TEST_P(MemoryTest, Misaligned) {
  Array<char> p(1024, 0);
  Array<float> out(32);
  MUSAIC_LAUNCH(load_vector, 1, 32, 0, Stream{}, p, out, 2);
  const Report r = expect_finding(Finding::kMisaligned, "load_vector", line_of(__FILE__, "misaligned"));
  expect_at(r, {0, 0, 0}, {0, 0, 0});
  MUSAIC_LAUNCH(load_vector, 1, 32, 0, Stream{}, p, out, 16);
  expect_silence();
  MUSAIC_LAUNCH(load_shared_vector, 1, 32, 0, Stream{}, out, 3);
  expect_finding(Finding::kMisaligned, "load_shared_vector", line_of(__FILE__, "misaligned-shared"));
  MUSAIC_LAUNCH(load_shared_vector, 1, 32, 0, Stream{}, out, 4);
  expect_silence();
}

__global__ void half_filled(float* p, int filled) {
  MUSAIC_SHARED(float[64], s);
  if (static_cast<int>(threadIdx.x) < filled) s[threadIdx.x] = 1.0f;
  __syncthreads();
  p[threadIdx.x] = s[threadIdx.x];  // PLANT(shared-unwritten)
}

TEST_P(MemoryTest, UnwrittenShared) {
  Array<float> p(64);
  // An earlier block's values do not count.
  MUSAIC_LAUNCH(half_filled, 1, 64, 0, Stream{}, p, 64);
  expect_silence();
  MUSAIC_LAUNCH(half_filled, 1, 64, 0, Stream{}, p, 60);
  const Report r =
      expect_finding(Finding::kSharedUnwritten, "half_filled", line_of(__FILE__, "shared-unwritten"));
  expect_at(r, {0, 0, 0}, {60, 0, 0});
  EXPECT_EQ(r.count, 4);
}

__global__ void add_one(const float* in, float* out) {
  out[threadIdx.x] = in[threadIdx.x] + 1.0f;  // PLANT(global-unwritten)
}

TEST_P(MemoryTest, UnwrittenGlobalAndOutput) {
  Array<float> in(32), out(32);
  MUSAIC_LAUNCH(add_one, 1, 32, 0, Stream{}, in, out);
  const Report r =
      expect_finding(Finding::kGlobalUnwritten, "add_one", line_of(__FILE__, "global-unwritten"));
  expect_at(r, {0, 0, 0}, {0, 0, 0});
  EXPECT_EQ(r.address, in.data());
  in.set(std::vector<float>(32, 1.0f));
  MUSAIC_LAUNCH(add_one, 1, 31, 0, Stream{}, in, out);
  expect_silence();
  Array<float> fresh(32);
  MUSAIC_LAUNCH(add_one, 1, 31, 0, Stream{}, in, fresh);
  fresh.get();
  const Report o = expect_finding(Finding::kOutputUnwritten, "copy_from_device", 0);
  EXPECT_EQ(o.address, fresh.data() + 31);
  MUSAIC_LAUNCH(add_one, 1, 32, 0, Stream{}, in, fresh);
  EXPECT_EQ(fresh.get(), std::vector<float>(32, 2.0f));
  expect_silence();
}

TEST_P(MemoryTest, HostPointers) {
  Array<float> out(32);
  std::vector<float> host(32, 1.0f);
  MUSAIC_LAUNCH(add_one, 1, 32, 0, Stream{}, host.data(), out);
  Report r = expect_finding(Finding::kHostPointer, "add_one", line_of(__FILE__, "global-unwritten"));
  EXPECT_EQ(r.address, host.data());
  MUSAIC_LAUNCH(add_one, 1, 32, 0, Stream{}, static_cast<const float*>(nullptr), out);
  r = expect_finding(Finding::kHostPointer, "add_one", line_of(__FILE__, "global-unwritten"));
  EXPECT_NE(r.message.find("null"), std::string::npos);
}

float host_global = 0.0f;
constexpr float kTable[4] = {1.0f, 2.0f, 3.0f, 4.0f};
__global__ void use_table(float* out, bool write) {
  out[threadIdx.x] = kTable[threadIdx.x % 4] + host_global;
  if (write) host_global = 1.0f;  // PLANT(host-global)
}
TEST_P(MemoryTest, ProgramData) {
  Array<float> out(32);
  MUSAIC_LAUNCH(use_table, 1, 32, 0, Stream{}, out, false);
  expect_silence();
  MUSAIC_LAUNCH(use_table, 1, 32, 0, Stream{}, out, true);
  expect_finding(Finding::kConstantWrite, "use_table", line_of(__FILE__, "host-global"));
}

TEST_P(MemoryTest, Peers) {
  Array<float> in(32, 1.0f, 1), out(32);
  MUSAIC_LAUNCH(add_one, 1, 32, 0, Stream{}, in, out);
  expect_finding(Finding::kPeerAccess, "add_one", line_of(__FILE__, "global-unwritten"));
  enable_peer_access(0, 1);
  MUSAIC_LAUNCH(add_one, 1, 32, 0, Stream{}, in, out);
  expect_silence();
  disable_peer_access(0, 1);
  const IpcHandle handle = ipc_handle(in.data() + 3);
  auto* opened = static_cast<float*>(ipc_open(handle, 0));
  EXPECT_EQ(opened, in.data());
  MUSAIC_LAUNCH(add_one, 1, 32, 0, Stream{}, opened, out);
  expect_silence();
  ipc_close(opened, 0);
  MUSAIC_LAUNCH(add_one, 1, 32, 0, Stream{}, opened, out);
  expect_finding(Finding::kPeerAccess, "add_one", line_of(__FILE__, "global-unwritten"));
  IpcHandle broken = handle;
  broken.bytes[8] ^= 1;
  EXPECT_THROW(ipc_open(broken, 0), Error);
}

__global__ void copy_block(char* to, const char* from, int n) {
  if (threadIdx.x == 0) std::memcpy(to, from, static_cast<std::size_t>(n));  // PLANT(memcpy)
}
struct Triple {
  float a, b, c;
};
__global__ void copy_struct(Triple* to, const Triple* from) {
  to[threadIdx.x] = from[threadIdx.x];  // PLANT(struct)
}
TEST_P(MemoryTest, BlockCopiesAreChecked) {
  Array<char> from(200, 1), to(200);
  for (const int n : {3, 12, 100, 200}) {
    MUSAIC_LAUNCH(copy_block, 1, 32, 0, Stream{}, to, from, n);
    expect_silence();
  }
  MUSAIC_LAUNCH(copy_block, 1, 32, 0, Stream{}, to, from, 201);
  expect_finding(Finding::kGlobalBounds, "copy_block", line_of(__FILE__, "memcpy"));
  Array<Triple> a(32, Triple{1, 2, 3}), b(31);
  MUSAIC_LAUNCH(copy_struct, 1, 31, 0, Stream{}, b, a);
  expect_silence();
  MUSAIC_LAUNCH(copy_struct, 1, 32, 0, Stream{}, b, a);
  expect_finding(Finding::kGlobalBounds, "copy_struct", line_of(__FILE__, "struct"));
}

}  // namespace
}  // namespace musaic::simt::testing
