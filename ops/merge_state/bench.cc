#include "bench/bench.h"

namespace musaic::bench {
namespace {

/// Reads two vectors and two sums a head, writes one of each.
void BM_merge_state_v2(benchmark::State& state, DType dtype) {
  const std::int64_t tokens = state.range(0), heads = state.range(1), d = state.range(2);
  OwnedTensor a(dtype, {tokens, heads, d}), b(dtype, {tokens, heads, d}), out(dtype, {tokens, heads, d}),
      s_a(kFloat32, {tokens, heads}), s_b(kFloat32, {tokens, heads}), s(kFloat32, {tokens, heads});
  fill_random(a, 1);
  fill_random(b, 2);
  fill_random(s_a, 3);
  fill_random(s_b, 4);
  for (auto _ : state) merge_state_v2(out, s, a, s_a, b, s_b);
  set_traffic(state, 3 * tokens * heads * (d * size_bytes(dtype) + 4));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "heads", "d"})
      ->Args({1, 9, 64})
      ->Args({1, 32, 128})
      ->Args({512, 32, 128})
      ->Args({4096, 16, 128});
}
BENCHMARK_CAPTURE(BM_merge_state_v2, float32, kFloat32)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_merge_state_v2, bfloat16, kBFloat16)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_merge_state_v2, float16, kFloat16)->Apply(shapes)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
