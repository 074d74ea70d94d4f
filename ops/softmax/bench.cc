#include "bench/bench.h"

#include <algorithm>
#include <cmath>

namespace musaic::bench {
namespace {

/// Reads the row, writes the row; the second and third look at the row come from the cache.
void BM_softmax(benchmark::State& state, DType dtype) {
  const std::int64_t rows = state.range(0), n = state.range(1);
  OwnedTensor in(dtype, {rows, n}), out(kFloat32, {rows, n});
  fill_random(in, 1);
  for (auto _ : state) softmax(out, in, Tensor(), 0.8);
  set_traffic(state, rows * n * (size_bytes(dtype) + 4));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "vocab"})->Args({1, 49152})->Args({1, 128256})->Args({64, 32000});
}
BENCHMARK_CAPTURE(BM_softmax, float32, kFloat32)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_softmax, bfloat16, kBFloat16)->Apply(shapes)->UseRealTime();

/// The plain loop with the C library's exponential.
void BM_plain_loop(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  OwnedTensor in(kFloat32, {n}), out(kFloat32, {n});
  fill_random(in, 1);
  const float* x = in.data_as<float>();
  float* y = out.data_as<float>();
  for (auto _ : state) {
    const float max = *std::max_element(x, x + n);
    float sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += y[i] = std::exp((x[i] - max) / 0.8f);
    for (std::int64_t i = 0; i < n; ++i) y[i] /= sum;
    benchmark::ClobberMemory();
  }
  set_traffic(state, n * 8);
}
BENCHMARK(BM_plain_loop)->Arg(49152);

}  // namespace
}  // namespace musaic::bench
