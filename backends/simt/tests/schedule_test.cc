// Order dependence: other schedules, the same bytes; and seeds that repeat a run.
#include "backends/simt/tests/harness.h"

namespace musaic::simt::testing {
namespace {

class ScheduleTest : public OnEveryTarget {};
MUSAIC_SIMT_EVERY_TARGET(ScheduleTest);

__global__ void sum_atomically(const float* x, float* sum) {
  atomicAdd(sum, x[blockIdx.x * 32 + threadIdx.x]);
}
__global__ void sum_in_order(const float* x, float* sum, int n) {
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  float s = 0;
  for (int i = 0; i < n; ++i) s += x[i];
  *sum = s;
}

std::vector<float> values() {
  std::vector<float> v(512);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = 1.0f / static_cast<float>(i + 1);
  return v;
}

TEST_P(ScheduleTest, FloatAtomicsDependOnTheOrder) {
  Array<float> x(values()), sum(1);
  const bool same = is_order_independent(
      [&] {
        fill(sum, 0, 4);
        MUSAIC_LAUNCH(sum_atomically, 16, 32, 0, Stream{}, x, sum);
      },
      sum.data(), 4, 10);
  EXPECT_FALSE(same);
  const Report r = expect_finding(Finding::kOrderDependence, "", 0);
  EXPECT_NE(r.text().find("MUSAIC_SIMT_SEED=" + std::to_string(r.seed)), std::string::npos) << r.text();
  EXPECT_TRUE(is_order_independent([&] { MUSAIC_LAUNCH(sum_in_order, 16, 32, 0, Stream{}, x, sum, 512); },
                                   sum.data(), 4, 10));
  expect_silence();
}

TEST_P(ScheduleTest, SeedsRepeatARun) {
  Array<float> x(values()), sum(1);
  const auto run = [&](Schedule schedule, std::uint64_t seed) {
    Options o = options();
    o.schedule = schedule;
    o.seed = seed;
    const ScopedOptions scope(o);
    fill(sum, 0, 4);
    MUSAIC_LAUNCH(sum_atomically, 16, 32, 0, Stream{}, x, sum);
    return sum.get()[0];
  };
  for (const Schedule s : {Schedule::kRandom, Schedule::kRunAhead})
    for (std::uint64_t seed = 1; seed < 5; ++seed) EXPECT_EQ(run(s, seed), run(s, seed));
  expect_silence();
}

template <bool fixed>
__global__ void scratch_reused(float* out) {
  MUSAIC_SHARED(float[256], s);
  float total = 0;
  for (int round = 0; round < 4; ++round) {
    s[threadIdx.x] = static_cast<float>(round * 256 + static_cast<int>(threadIdx.x));
    __syncthreads();
    total += s[255 - threadIdx.x];
    if (fixed) __syncthreads();
  }
  out[threadIdx.x] = total;
}
TEST_P(ScheduleTest, RunAheadShowsAMissingBarrier) {
  Array<float> out(256);
  EXPECT_FALSE(is_order_independent([&] { MUSAIC_LAUNCH(scratch_reused<false>, 1, 256, 0, Stream{}, out); },
                                    out.data(), 256 * 4, 20));
  take_reports();
  EXPECT_TRUE(is_order_independent([&] { MUSAIC_LAUNCH(scratch_reused<true>, 1, 256, 0, Stream{}, out); },
                                   out.data(), 256 * 4, 20));
  expect_silence();
}

}  // namespace
}  // namespace musaic::simt::testing
