#include "bench/bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace musaic::bench {
namespace {

struct Call {
  OwnedTensor rows, tokens, seed, offset;
  Call(std::int64_t n, std::int64_t vocab_size, DType dtype)
      : rows(dtype, {n, vocab_size}), tokens(kInt32, {n}), seed(kInt64, {n}), offset(kInt64, {n}) {
    fill_random(rows, 1);
    // Logits with the spread of a model's.
    if (dtype == kFloat32)
      for (std::int64_t i = 0; i < n * vocab_size; ++i) rows.data_as<float>()[i] *= 2.5f;
    for (std::int64_t i = 0; i < n; ++i) seed.data_as<std::int64_t>()[i] = i;
  }
  void next() {
    for (std::int64_t i = 0; i < offset.numel(); ++i) ++offset.data_as<std::int64_t>()[i];
  }
};

/// Reads every row once; later looks come from the cache.
void logits(benchmark::State& state, DType dtype, std::int64_t top_k, double top_p, double min_p) {
  const std::int64_t n = state.range(0), vocab_size = state.range(1);
  Call call(n, vocab_size, dtype);
  for (auto _ : state) {
    sampling_from_logits(call.tokens, Tensor(), call.rows, Tensor(), call.seed, call.offset, Tensor(),
                         Tensor(), Tensor(), Tensor(), Tensor(), 0.8, top_k, top_p, min_p);
    call.next();
  }
  set_traffic(state, n * vocab_size * size_bytes(dtype));
}

void probs(benchmark::State& state, std::int64_t top_k, double top_p, double min_p) {
  const std::int64_t n = state.range(0), vocab_size = state.range(1);
  Call call(n, vocab_size, kFloat32);
  softmax(call.rows, call.rows, Tensor(), 0.8);
  for (auto _ : state) {
    sampling_from_probs(call.tokens, Tensor(), call.rows, Tensor(), call.seed, call.offset, Tensor(),
                        Tensor(), Tensor(), Tensor(), top_k, top_p, min_p);
    call.next();
  }
  set_traffic(state, n * vocab_size * 4);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "vocab"})->Args({1, 49152})->Args({1, 128256})->UseRealTime();
}
BENCHMARK_CAPTURE(logits, top_k_50_top_p_90, kFloat32, 50, 0.9, 0.0)->Apply(shapes);
BENCHMARK_CAPTURE(logits, top_k_50, kFloat32, 50, 1.0, 0.0)->Apply(shapes);
BENCHMARK_CAPTURE(logits, top_p_90, kFloat32, 0, 0.9, 0.0)->Apply(shapes);
BENCHMARK_CAPTURE(logits, top_p_10, kFloat32, 0, 0.1, 0.0)->Apply(shapes);
BENCHMARK_CAPTURE(logits, min_p_10, kFloat32, 0, 1.0, 0.1)->Apply(shapes);
BENCHMARK_CAPTURE(logits, no_filter, kFloat32, 0, 1.0, 0.0)->Apply(shapes);
BENCHMARK_CAPTURE(logits, top_k_5000, kFloat32, 5000, 1.0, 0.0)->Apply(shapes);
BENCHMARK_CAPTURE(logits, top_k_50_top_p_90_bf16, kBFloat16, 50, 0.9, 0.0)->Apply(shapes);
BENCHMARK_CAPTURE(probs, top_k_50_top_p_90, 50, 0.9, 0.0)->Apply(shapes);
BENCHMARK_CAPTURE(probs, top_p_90, 0, 0.9, 0.0)->Apply(shapes);
BENCHMARK_CAPTURE(logits, top_k_50_top_p_90, kFloat32, 50, 0.9, 0.0)->Args({64, 32000})->UseRealTime();

/// What a plain program does for top-k 50, top-p 0.9: partial sort, exponentials of the row, a scan.
void plain_partial_sort(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  Call call(1, n, kFloat32);
  const float* x = call.rows.data_as<float>();
  std::vector<std::int32_t> order(static_cast<std::size_t>(n));
  std::mt19937 rng(1);
  for (auto _ : state) {
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + 50, order.end(),
                      [&](std::int32_t a, std::int32_t b) { return x[a] > x[b]; });
    double mass = 0, kept = 0, p[50];
    for (std::int64_t i = 0; i < n; ++i) mass += std::exp((x[i] - x[order.front()]) / 0.8f);
    int m = 0;
    while (m < 50 && kept < 0.9 * mass)
      kept += p[m] = std::exp((x[order[static_cast<std::size_t>(m)]] - x[order.front()]) / 0.8f), ++m;
    double u = std::uniform_real_distribution<double>(0, kept)(rng);
    int i = 0;
    while (i + 1 < m && u >= p[i]) u -= p[i++];
    benchmark::DoNotOptimize(order[static_cast<std::size_t>(i)]);
  }
  set_traffic(state, n * 4);
}
BENCHMARK(plain_partial_sort)->Arg(49152)->Arg(128256);

}  // namespace
}  // namespace musaic::bench
