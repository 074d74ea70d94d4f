#include "bench/bench.h"

namespace musaic::bench {
namespace {

/// Reads and writes the heads; the cosines and sines of a token serve all of its heads.
void BM_rotary_embedding(benchmark::State& state, DType dtype, bool is_neox) {
  const std::int64_t tokens = state.range(0), q_heads = state.range(1), k_heads = state.range(2),
                     d = state.range(3);
  OwnedTensor q(dtype, {tokens, q_heads, d}), k(dtype, {tokens, k_heads, d}), cache(kFloat32, {tokens, d}),
      positions(kInt64, {tokens});
  fill_random(q, 1);
  fill_random(k, 2);
  for (std::int64_t t = 0; t < tokens; ++t) {
    positions.data_as<std::int64_t>()[t] = t;
    // 3-4-5 rotations, so that repeated calls keep the length of every pair.
    for (std::int64_t i = 0; i < d; ++i) cache.data_as<float>()[t * d + i] = i < d / 2 ? 0.6f : 0.8f;
  }
  for (auto _ : state) rotary_embedding(q, k, positions, cache, d, is_neox);
  set_traffic(state, tokens * ((q_heads + k_heads) * d * 2 * size_bytes(dtype) + d * 4));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "q", "k", "d"})
      ->Args({1, 9, 3, 64})
      ->Args({1, 32, 8, 128})
      ->Args({512, 32, 8, 128})
      ->Args({4096, 32, 8, 128});
}
BENCHMARK_CAPTURE(BM_rotary_embedding, neox_float32, kFloat32, true)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_rotary_embedding, neox_bfloat16, kBFloat16, true)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_rotary_embedding, interleaved_float32, kFloat32, false)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_rotary_embedding, interleaved_bfloat16, kBFloat16, false)->Apply(shapes)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
