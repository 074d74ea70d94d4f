#include "bench/bench.h"

namespace musaic::bench {
namespace {

/// Reads the mask and writes half of the logits.
void BM_apply_token_bitmask_inplace(benchmark::State& state) {
  const std::int64_t rows = state.range(0), vocab = 151936;
  OwnedTensor logits(kFloat32, {rows, vocab}), mask(kInt32, {rows, vocab / 32});
  fill_random(logits, 1);
  for (std::int64_t i = 0; i < mask.numel(); ++i) mask.data_as<std::int32_t>()[i] = 0x55555555;
  for (auto _ : state) apply_token_bitmask_inplace(logits, mask);
  set_traffic(state, rows * (vocab / 8 + vocab * 2));
}
BENCHMARK(BM_apply_token_bitmask_inplace)->ArgName("rows")->Arg(1)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
