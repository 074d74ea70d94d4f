#include "bench/bench.h"

namespace musaic::bench {
namespace {

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "hidden"})->Args({1, 4096})->Args({2048, 4096})->UseRealTime();
}

/// Reads and writes every element.
void BM_gelu_quick(benchmark::State& state, DType dtype) {
  OwnedTensor in(dtype, {state.range(0), state.range(1)}), out(dtype, {state.range(0), state.range(1)});
  fill_random(in, 1);
  for (auto _ : state) gelu_quick(out, in);
  set_traffic(state, 2 * in.size_in_bytes());
}
BENCHMARK_CAPTURE(BM_gelu_quick, bfloat16, kBFloat16)->Apply(shapes);

/// Reads two tensors, writes one.
void BM_fused_mul_add(benchmark::State& state, DType dtype) {
  OwnedTensor in(dtype, {state.range(0), state.range(1)}), bias(dtype, {state.range(0), state.range(1)}),
      out(dtype, {state.range(0), state.range(1)});
  fill_random(in, 1);
  fill_random(bias, 2);
  for (auto _ : state) fused_mul_add(out, in, bias, 2.5);
  set_traffic(state, 3 * in.size_in_bytes());
}
BENCHMARK_CAPTURE(BM_fused_mul_add, bfloat16, kBFloat16)->Apply(shapes);

}  // namespace
}  // namespace musaic::bench
