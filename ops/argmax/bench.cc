#include "bench/bench.h"

#include <algorithm>

namespace musaic::bench {
namespace {

/// Reads every row once.
void BM_argmax(benchmark::State& state, DType dtype) {
  const std::int64_t rows = state.range(0), n = state.range(1);
  OwnedTensor in(dtype, {rows, n}), out(kInt64, {rows});
  fill_random(in, 1);
  for (auto _ : state) argmax(out, in);
  set_traffic(state, rows * n * size_bytes(dtype));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "vocab"})->Args({1, 49152})->Args({1, 128256})->Args({64, 128256});
}
BENCHMARK_CAPTURE(BM_argmax, float32, kFloat32)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_argmax, bfloat16, kBFloat16)->Apply(shapes)->UseRealTime();

void BM_max_element(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  OwnedTensor in(kFloat32, {n});
  fill_random(in, 1);
  const float* x = in.data_as<float>();
  for (auto _ : state) benchmark::DoNotOptimize(std::max_element(x, x + n));
  set_traffic(state, n * 4);
}
BENCHMARK(BM_max_element)->Arg(49152);

}  // namespace
}  // namespace musaic::bench
