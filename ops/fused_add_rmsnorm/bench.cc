#include "bench/bench.h"

namespace musaic::bench {
namespace {

/// Reads and writes two rows; the weight stays in the cache.
void BM_fused_add_rmsnorm(benchmark::State& state, DType dtype) {
  const std::int64_t rows = state.range(0), n = state.range(1);
  OwnedTensor in(dtype, {rows, n}), residual(dtype, {rows, n}), w(dtype, {n});
  fill_random(in, 1);
  fill_random(w, 2);
  // The residual starts at zero and gains a normalised row a call, far from overflow in any number of
  // iterations that a run makes in float32; in 16 bits it settles where an addition rounds away.
  for (auto _ : state) fused_add_rmsnorm(in, residual, w);
  set_traffic(state, 4 * rows * n * size_bytes(dtype));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "hidden"})->Args({1, 576})->Args({1, 4096})->Args({512, 4096})->Args({2048, 7168});
}
BENCHMARK_CAPTURE(BM_fused_add_rmsnorm, float32, kFloat32)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_fused_add_rmsnorm, bfloat16, kBFloat16)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_fused_add_rmsnorm, float16, kFloat16)->Apply(shapes)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
