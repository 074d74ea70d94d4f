// Barriers, exchanges and votes: what they deliver, and what happens when not everyone comes.
#include "backends/simt/tests/harness.h"

namespace musaic::simt::testing {
namespace {

class CollectiveTest : public OnEveryTarget {};
MUSAIC_SIMT_EVERY_TARGET(CollectiveTest);

__global__ void exchanges(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  const int n = static_cast<int>(blockDim.x);
  out[t] = __shfl_xor_sync(kEveryLane, t, 5, 32);
  out[n + t] = __shfl_down_sync(kEveryLane, t, 3, 8);
  out[2 * n + t] = __shfl_up_sync(kEveryLane, t, 2, 16);
  out[3 * n + t] = __shfl_sync(kEveryLane, t, 7, 32);
  out[4 * n + t] = __any_sync(kEveryLane, t == 33);
  out[5 * n + t] = __all_sync(kEveryLane, t >= 0);
}

TEST_P(CollectiveTest, DeliverTheRightLanes) {
  constexpr int kThreads = 256;
  Array<int> out(6 * kThreads);
  MUSAIC_LAUNCH(exchanges, 1, kThreads, 0, Stream{}, out);
  const auto v = out.get();
  const int vote_group = current_target().mask_bits;
  for (int t = 0; t < kThreads; ++t) {
    const auto at = [&](int row) { return v[static_cast<std::size_t>(row * kThreads + t)]; };
    EXPECT_EQ(at(0), t ^ 5);
    EXPECT_EQ(at(1), t % 8 + 3 < 8 ? t + 3 : t);
    EXPECT_EQ(at(2), t % 16 >= 2 ? t - 2 : t);
    EXPECT_EQ(at(3), t / 32 * 32 + 7);
    EXPECT_EQ(at(4), t / vote_group == 33 / vote_group) << t;
    EXPECT_EQ(at(5), 1);
  }
  expect_silence();
}

__global__ void counts(int* out) {
  const int c = __syncthreads_count(threadIdx.x % 3 == 0);
  const int o = __syncthreads_or(threadIdx.x == 5);
  const int a = __syncthreads_and(threadIdx.x != 5);
  out[threadIdx.x] = c * 100 + o * 10 + a;
}
TEST_P(CollectiveTest, BarrierVotes) {
  Array<int> out(96);
  MUSAIC_LAUNCH(counts, 1, 96, 0, Stream{}, out);
  EXPECT_EQ(out.get(), std::vector<int>(96, 32 * 100 + 10));
  expect_silence();
}

template <bool fixed>
__global__ void barrier_in_branch(float* out) {
  if (fixed || threadIdx.x < 40) __syncthreads();  // PLANT(branch-barrier)
  out[threadIdx.x] = 1.0f;
}
TEST_P(CollectiveTest, BarrierThatSomeNeverReach) {
  Array<float> out(64);
  MUSAIC_LAUNCH(barrier_in_branch<false>, 1, 64, 0, Stream{}, out);
  const Report r = expect_finding(Finding::kBarrierDivergence, "barrier_in_branch<false>",
                                  line_of(__FILE__, "branch-barrier"));
  expect_at(r, {0, 0, 0}, {0, 0, 0});
  EXPECT_NE(r.message.find("24 of 64 threads"), std::string::npos) << r.text();
  MUSAIC_LAUNCH(barrier_in_branch<true>, 1, 64, 0, Stream{}, out);
  expect_silence();
}

__global__ void two_barriers(float* out) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
  } else {
    __syncthreads();  // PLANT(second-barrier)
  }
  out[threadIdx.x] = 1.0f;
}
TEST_P(CollectiveTest, DifferentBarriers) {
  Array<float> out(64);
  MUSAIC_LAUNCH(two_barriers, 1, 64, 0, Stream{}, out);
  const Report r =
      expect_finding(Finding::kBarrierDivergence, "two_barriers", line_of(__FILE__, "second-barrier"));
  expect_at(r, {0, 0, 0}, {1, 0, 0});
}

__global__ void barrier_against_exchange(float* out) {
  if (threadIdx.x < 40) __syncthreads();
  out[threadIdx.x] = __shfl_xor_sync(kEveryLane, 1.0f, 1, 32);  // PLANT(against)
}
TEST_P(CollectiveTest, BarrierAgainstExchange) {
  Array<float> out(256);
  MUSAIC_LAUNCH(barrier_against_exchange, 1, 256, 0, Stream{}, out);
  const Report r =
      expect_finding(Finding::kExchangeDivergence, "barrier_against_exchange", line_of(__FILE__, "against"));
  EXPECT_NE(r.message.find("40 threads at the barrier"), std::string::npos) << r.text();
}

template <bool fixed>
__global__ void exit_before_exchange(float* out, int n) {
  if (!fixed && static_cast<int>(threadIdx.x) >= n) return;
  float v = 1.0f;
  for (int m = 16; m > 0; m /= 2) v += __shfl_xor_sync(kEveryLane, v, m, 32);  // PLANT(exited)
  out[threadIdx.x] = v;
}
TEST_P(CollectiveTest, ExchangeReadsExitedLanes) {
  Array<float> out(256);
  MUSAIC_LAUNCH(exit_before_exchange<false>, 1, 256, 0, Stream{}, out, 250);
  const Report r =
      expect_finding(Finding::kExchangeLane, "exit_before_exchange<false>", line_of(__FILE__, "exited"));
  const int warp = current_target().hardware_warp;
  EXPECT_EQ(r.thread.x % static_cast<unsigned>(warp), static_cast<unsigned>(r.lane));
  EXPECT_GE(r.thread.x, 224u);
  EXPECT_NE(r.message.find("has exited"), std::string::npos) << r.text();
  MUSAIC_LAUNCH(exit_before_exchange<true>, 1, 256, 0, Stream{}, out, 250);
  EXPECT_EQ(out.get(), std::vector<float>(256, 32.0f));
  expect_silence();
}
TEST_P(CollectiveTest, ExchangeReadsAbsentLanes) {
  Array<float> out(256);
  MUSAIC_LAUNCH(exit_before_exchange<true>, 1, 40, 0, Stream{}, out, 40);
  const Report r =
      expect_finding(Finding::kExchangeLane, "exit_before_exchange<true>", line_of(__FILE__, "exited"));
  EXPECT_NE(r.message.find("does not exist in this block"), std::string::npos) << r.text();
}

__global__ void exchanges_in_branches(float* out) {
  float v = 1.0f;
  if (threadIdx.x % 2 == 0) {
    v = __shfl_xor_sync(kEveryLane, v, 2, 32);
  } else {
    v = __shfl_xor_sync(kEveryLane, v, 4, 32);  // PLANT(branches)
  }
  out[threadIdx.x] = v;
}
TEST_P(CollectiveTest, OneWarpAtDifferentSites) {
  Array<float> out(256);
  MUSAIC_LAUNCH(exchanges_in_branches, 1, 256, 0, Stream{}, out);
  const Report r =
      expect_finding(Finding::kExchangeDivergence, "exchanges_in_branches", line_of(__FILE__, "branches"));
  expect_at(r, {0, 0, 0}, {1, 0, 0});
  EXPECT_EQ(r.lane, 1);
}

/// Uniform over 32 lanes, not over a hardware warp of 64 or 128.
__global__ void exchange_in_one_group(float* out) {
  float v = 1.0f;
  if (threadIdx.x / 32 == 0) v += __shfl_xor_sync(0xffffffffu, v, 1, 32);  // PLANT(group)
  __syncthreads();
  out[threadIdx.x] = v;
}
TEST_P(CollectiveTest, WholeHardwareWarpHasToArrive) {
  Array<float> out(128);
  MUSAIC_LAUNCH(exchange_in_one_group, 1, 128, 0, Stream{}, out);
  const DeviceRecord& d = current_target();
  if (d.whole_warp_exchanges && d.hardware_warp > 32) {
    const Report r =
        expect_finding(Finding::kExchangeDivergence, "exchange_in_one_group", line_of(__FILE__, "group"));
    EXPECT_EQ(r.lane, 0);
  } else {
    expect_silence();
  }
}

__global__ void literal_mask(float* out) {
  float v = 1.0f;
  for (int m = 16; m > 0; m /= 2) v += __shfl_xor_sync(0xffffffffu, v, m, 32);  // PLANT(mask)
  out[threadIdx.x] = v;
}
TEST_P(CollectiveTest, LiteralMask) {
  Array<float> out(128);
  MUSAIC_LAUNCH(literal_mask, 1, 128, 0, Stream{}, out);
  if (current_target().mask_bits == 64) {
    const Report r = expect_finding(Finding::kExchangeMask, "literal_mask", line_of(__FILE__, "mask"));
    EXPECT_EQ(r.lane, 32);
    expect_at(r, {0, 0, 0}, {32, 0, 0});
  } else {
    EXPECT_EQ(out.get(), std::vector<float>(128, 32.0f));
    expect_silence();
  }
}

__global__ void partial_mask(int* out) {
  int v = static_cast<int>(threadIdx.x);
  if (threadIdx.x < 16) v = __shfl_sync(0xffffu, v, 20, 32);  // PLANT(outside)
  out[threadIdx.x] = v;
}
TEST_P(CollectiveTest, ExchangeReadsLaneOutsideTheMask) {
  Array<int> out(32);
  MUSAIC_LAUNCH(partial_mask, 1, 32, 0, Stream{}, out);
  const bool whole = current_target().whole_warp_exchanges;
  const Report r = expect_finding(Finding::kExchangeLane, "partial_mask", line_of(__FILE__, "outside"));
  EXPECT_EQ(r.lane, 0);
  EXPECT_NE(r.message.find(whole ? "has exited" : "is not in the mask"), std::string::npos) << r.text();
}

/// Sized by the host's warp size, as programs do that ask the driver for it.
__global__ void reduce_by_host_warp(const float* in, float* out, int warp) {
  float v = in[threadIdx.x];
  for (int m = warp / 2; m > 0; m /= 2) v += __shfl_xor_sync(kEveryLane, v, m, warp);  // PLANT(host-warp)
  out[threadIdx.x] = v;
}
TEST_P(CollectiveTest, HostWarpSize) {
  Array<float> in(256, 1.0f), out(256);
  const int warp = properties().warp_size;
  MUSAIC_LAUNCH(reduce_by_host_warp, 1, 256, 0, Stream{}, in, out, warp);
  if (warp > current_target().max_exchange_width) {
    EXPECT_EQ(warp, 128);
    const Report r =
        expect_finding(Finding::kExchangeWidth, "reduce_by_host_warp", line_of(__FILE__, "host-warp"));
    EXPECT_NE(r.message.find("the host's warp size is 128, the kernel's 32"), std::string::npos) << r.text();
  }
  expect_silence();
  MUSAIC_LAUNCH(reduce_by_host_warp, 1, 256, 0, Stream{}, in, out, 32);
  EXPECT_EQ(out.get(), std::vector<float>(256, 32.0f));
  expect_silence();
}

__global__ void wide_exchange(int* out, int width) {
  out[threadIdx.x] = __shfl_xor_sync(kEveryLane, static_cast<int>(threadIdx.x), 32, width);
}
TEST_P(CollectiveTest, WideExchangesGiveWrongLanes) {
  Array<int> out(128);
  MUSAIC_LAUNCH(wide_exchange, 1, 128, 0, Stream{}, out, 64);
  const auto v = out.get();
  if (current_target().max_exchange_width >= 64) {
    EXPECT_EQ(v[0], 32);
    expect_silence();
  } else {
    EXPECT_NE(v[0], 32);
    expect_finding(Finding::kExchangeWidth, "wide_exchange", 0);
  }
}

__global__ void bad_width(int* out) { out[threadIdx.x] = __shfl_xor_sync(kEveryLane, 1, 1, 12); }
TEST_P(CollectiveTest, WidthThatIsNoPowerOfTwo) {
  Array<int> out(128);
  MUSAIC_LAUNCH(bad_width, 1, 128, 0, Stream{}, out);
  expect_finding(Finding::kExchangeWidth, "bad_width", 0);
}

__global__ void device_warp(int* out) { out[threadIdx.x] = warpSize; }
TEST_P(CollectiveTest, DeviceWarpSize) {
  Array<int> out(32);
  MUSAIC_LAUNCH(device_warp, 1, 32, 0, Stream{}, out);
  EXPECT_EQ(out.get()[0], GetParam() == "simt:hip" ? 64 : 32);
}

}  // namespace
}  // namespace musaic::simt::testing
