#include "bench/bench.h"

namespace musaic::bench {
namespace {

using Function = void (*)(const Tensor&, const Tensor&, Stream);

/// Reads the two halves of a row, writes one.
void BM_activation(benchmark::State& state, Function call, DType dtype) {
  const std::int64_t rows = state.range(0), d = state.range(1);
  OwnedTensor in(dtype, {rows, 2 * d}), out(dtype, {rows, d});
  fill_random(in, 1);
  for (auto _ : state) call(out, in, {});
  set_traffic(state, 3 * rows * d * size_bytes(dtype), rows * d);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "d"})->Args({1, 1536})->Args({1, 11008})->Args({64, 4096})->Args({512, 11008});
}
BENCHMARK_CAPTURE(BM_activation, silu_float32, &silu_and_mul, kFloat32)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_activation, silu_bfloat16, &silu_and_mul, kBFloat16)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_activation, silu_float16, &silu_and_mul, kFloat16)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_activation, gelu_bfloat16, &gelu_and_mul, kBFloat16)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_activation, gelu_tanh_bfloat16, &gelu_tanh_and_mul, kBFloat16)
    ->Apply(shapes)
    ->UseRealTime();

}  // namespace
}  // namespace musaic::bench
