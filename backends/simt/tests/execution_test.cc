// Whole kernels: what they compute on every target, alone, side by side and across devices.
#include <cmath>

#include "backends/simt/tests/harness.h"

namespace musaic::simt::testing {
namespace {

class ExecutionTest : public OnEveryTarget {};
MUSAIC_SIMT_EVERY_TARGET(ExecutionTest);

__global__ void indices(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[i] = i;
}
TEST_P(ExecutionTest, ThreeDimensions) {
  const dim3 grid(3, 2, 2), block(5, 3, 2);
  Array<unsigned> out(12 * 30);
  MUSAIC_LAUNCH(indices, grid, block, 0, Stream{}, out);
  const auto v = out.get();
  for (std::size_t i = 0; i < v.size(); ++i) EXPECT_EQ(v[i], i);
}

/// With `fixed` false, the block does not wait for its scale.
template <bool fixed>
__global__ void rmsnorm(const float* x, const float* weight, float* y, int n, float eps) {
  MUSAIC_SHARED(float[32], partial);
  MUSAIC_SHARED(float, scale);
  const int t = static_cast<int>(threadIdx.x), lane = t % 32, warp = t / 32;
  const float* row = x + static_cast<std::int64_t>(blockIdx.x) * n;
  float sum = 0;
  for (int i = t; i < n; i += static_cast<int>(blockDim.x)) sum += row[i] * row[i];
  for (int m = 16; m > 0; m /= 2) sum += __shfl_xor_sync(kEveryLane, sum, m, 32);
  if (lane == 0) partial[warp] = sum;
  __syncthreads();
  if (t == 0) {
    float total = 0;
    for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) total += partial[w];
    scale = 1.0f / std::sqrt(total / static_cast<float>(n) + eps);  // PLANT(scale-write)
  }
  if (fixed) __syncthreads();
  for (int i = t; i < n; i += static_cast<int>(blockDim.x))
    y[static_cast<std::int64_t>(blockIdx.x) * n + i] = row[i] * scale * weight[i];  // PLANT(scale-read)
}

TEST_P(ExecutionTest, Rmsnorm) {
  constexpr int n = 1000, rows = 3;
  std::vector<float> values(rows * n);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8.0f;
  Array<float> x(values), w(n, 0.5f), y(rows * n);
  for (const unsigned threads : {128u, 256u, 1024u}) {
    MUSAIC_LAUNCH(rmsnorm<true>, rows, threads, 0, Stream{}, x, w, y, n, 1e-6f);
    const auto got = y.get();
    for (int r = 0; r < rows; ++r) {
      double sum = 0;
      for (int i = 0; i < n; ++i) sum += std::pow(values[static_cast<std::size_t>(r * n + i)], 2);
      const double scale = 0.5 / std::sqrt(sum / n + 1e-6);
      for (int i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(r * n + i);
        ASSERT_NEAR(got[at], values[at] * scale, 1e-5) << r << ' ' << i;
      }
    }
  }
  expect_silence();
}

TEST_P(ExecutionTest, BrokenRmsnormIsExplained) {
  Array<float> x(256, 1.0f), w(256, 1.0f), y(256);
  MUSAIC_LAUNCH(rmsnorm<false>, 1, 256, 0, Stream{}, x, w, y, 256, 1e-6f);
  const auto reports = take_reports();
  const int read = line_of(__FILE__, "scale-read"), write = line_of(__FILE__, "scale-write");
  bool explained = false;
  for (const Report& r : reports) {
    EXPECT_TRUE(r.finding == Finding::kSharedRace || r.finding == Finding::kSharedUnwritten) << r.text();
    explained =
        explained || (r.line == read && (r.other_line == write || r.finding == Finding::kSharedUnwritten));
  }
  EXPECT_TRUE(explained) << all_text(reports);
}

struct Peers {
  float* data[2];
  unsigned* flags[2];
};
/// One-shot sum over two devices: publish, tell the peer, wait for it, add.
__global__ void all_reduce(Peers p, int rank, const float* in, float* out, int n, unsigned round) {
  const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (t < n) p.data[rank][t] = in[t];
  __syncthreads();
  if (threadIdx.x < 2) {
    store_release(p.flags[threadIdx.x] + blockIdx.x * 2 + static_cast<unsigned>(rank), round);
    while (load_acquire(p.flags[rank] + blockIdx.x * 2 + threadIdx.x) != round) spin_pause();
  }
  __syncthreads();
  if (t < n) out[t] = p.data[0][t] + p.data[1][t];
}

TEST_P(ExecutionTest, AllReduceOverIpcHandles) {
  constexpr int n = 200;
  Array<float> in0(n, 1.0f, 0), in1(n, 2.0f, 1);
  using On = Array<float>::Device;
  Array<float> buffer0(On{0}, n), buffer1(On{1}, n), out0(On{0}, n), out1(On{1}, n);
  Array<unsigned> flags0(8, 0u, 0), flags1(8, 0u, 1);
  Peers p{{buffer0, buffer1}, {flags0, flags1}};
  for (void* m : {static_cast<void*>(p.data[0]), static_cast<void*>(p.flags[0])}) ipc_open(ipc_handle(m), 1);
  for (void* m : {static_cast<void*>(p.data[1]), static_cast<void*>(p.flags[1])}) ipc_open(ipc_handle(m), 0);
  disable_peer_access(1, 0);
  disable_peer_access(0, 1);
  const Stream a = create_stream(0), b = create_stream(1);
  for (const bool buffered : {false, true})
    for (const int workers : {1, 2}) {
      Options o = options();
      o.workers = workers;
      o.store_buffers = buffered;
      set_options(o);
      flags0.set(std::vector<unsigned>(8, 0u));
      flags1.set(std::vector<unsigned>(8, 0u));
      synchronize();
      MUSAIC_LAUNCH(all_reduce, 4, 64, 0, a, p, 0, in0, out0, n, 1u);
      MUSAIC_LAUNCH(all_reduce, 4, 64, 0, b, p, 1, in1, out1, n, 1u);
      EXPECT_EQ(out0.get(), std::vector<float>(n, 3.0f));
      EXPECT_EQ(out1.get(), std::vector<float>(n, 3.0f));
      expect_silence();
    }
  destroy_stream(a);
  destroy_stream(b);
}

__global__ void many(int* out) {
  MUSAIC_SHARED(int, seen);
  if (threadIdx.x == 0) seen = static_cast<int>(blockIdx.x);
  __syncthreads();
  out[blockIdx.x * 32 + threadIdx.x] = seen;
}
TEST_P(ExecutionTest, ManyBlocksOnAllWorkers) {
  constexpr int kBlocks = 2000;
  Array<int> out(kBlocks * 32);
  MUSAIC_LAUNCH(many, kBlocks, 32, 0, Stream{}, out);
  const auto v = out.get();
  for (std::size_t i = 0; i < v.size(); ++i) ASSERT_EQ(v[i], static_cast<int>(i / 32));
  expect_silence();
}

}  // namespace
}  // namespace musaic::simt::testing
