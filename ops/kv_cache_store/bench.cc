#include "bench/bench.h"

#include <numeric>

namespace musaic::bench {
namespace {

/// Reads the keys and values, writes them to slots of shuffled pages of 16.
void BM_kv_cache_store(benchmark::State& state, DType source, DType stored) {
  const std::int64_t tokens = state.range(0), heads = state.range(1), dim = state.range(2);
  const std::int64_t pages = (tokens + 15) / 16 + 7;
  OwnedTensor k_cache(stored, {pages, 16, heads, dim}), v_cache(stored, {pages, 16, heads, dim}),
      key(source, {tokens, heads, dim}), value(source, {tokens, heads, dim}), slots(kInt32, {tokens});
  fill_random(key, 1);
  fill_random(value, 2);
  const std::int64_t step = std::gcd(pages, std::int64_t{5}) == 1 ? 5 : 1;
  for (std::int64_t t = 0; t < tokens; ++t)
    slots.data_as<std::int32_t>()[t] = static_cast<std::int32_t>(t / 16 * step % pages * 16 + t % 16);
  for (auto _ : state) kv_cache_store(k_cache, v_cache, key, value, slots);
  set_traffic(state, 2 * tokens * heads * dim * (size_bytes(source) + size_bytes(stored)) + 4 * tokens);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "heads", "dim"})->Args({1, 3, 64})->Args({512, 3, 64})->Args({2048, 8, 128});
}
BENCHMARK_CAPTURE(BM_kv_cache_store, float32, kFloat32, kFloat32)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_kv_cache_store, float32_to_float16, kFloat32, kFloat16)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_kv_cache_store, bfloat16, kBFloat16, kBFloat16)->Apply(shapes)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
