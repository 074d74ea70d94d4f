#include "bench/bench.h"

namespace musaic::bench {
namespace {

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "k", "hidden"})
      ->Args({1, 8, 7168})
      ->Args({512, 8, 2048})
      ->Args({2048, 8, 7168})
      ->UseRealTime();
}

/// Reads every slot once, writes a row a token.
void BM_moe_sum_reduce(benchmark::State& state, DType dtype) {
  const std::int64_t tokens = state.range(0), k = state.range(1), hidden = state.range(2);
  OwnedTensor in(dtype, {tokens, k, hidden}), out(dtype, {tokens, hidden});
  fill_random(in, 1);
  for (auto _ : state) moe_sum_reduce(out, in, {}, 2.5);
  set_traffic(state, tokens * (k + 1) * hidden * size_bytes(dtype));
}
BENCHMARK_CAPTURE(BM_moe_sum_reduce, float32, kFloat32)->Apply(shapes);
BENCHMARK_CAPTURE(BM_moe_sum_reduce, bfloat16, kBFloat16)->Apply(shapes);

}  // namespace
}  // namespace musaic::bench
