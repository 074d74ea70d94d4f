#include "bench/bench.h"

#include <string>

#include "ops/ggml_dequantize/blocks.h"

namespace musaic::bench {
namespace {

struct Matrix {
  std::int64_t type, rows, k, count;
};

/// Weights of one matrix after the other, as a model's layers are read, so that they come from memory.
class Weights {
 public:
  Weights(std::initializer_list<Matrix> layer, std::int64_t layers) : matrices_(layer) {
    for (Matrix& m : matrices_) m.count *= layers;
    std::int64_t bytes = 0;
    for (const Matrix& m : matrices_) bytes += m.count * m.rows * ggml_row_bytes(m.type, m.k);
    memory_ = OwnedTensor(kUInt8, {bytes});
    // Small codes and scales: zeros would do for the time, but not for a processor that saves power on them.
    for (std::int64_t i = 0; i < bytes; ++i)
      memory_.data_as<unsigned char>()[i] = static_cast<unsigned char>(i * 37 % 64);
  }
  std::int64_t bytes() const { return memory_.numel(); }
  std::int64_t operations(std::int64_t tokens) const {
    std::int64_t n = 0;
    for (const Matrix& m : matrices_) n += 2 * m.count * m.rows * m.k * tokens;
    return n;
  }
  template <class F>
  void each(F f) const {
    std::int64_t at = 0;
    for (const Matrix& m : matrices_)
      for (std::int64_t i = 0; i < m.count; ++i) {
        const std::int64_t size = m.rows * ggml_row_bytes(m.type, m.k);
        f(m, memory_.view().slice(0, at, at + size));
        at += size;
      }
  }

 private:
  std::vector<Matrix> matrices_;
  OwnedTensor memory_;
};

void run(benchmark::State& state, const Weights& weights, std::int64_t tokens) {
  std::int64_t most_rows = 0, most_k = 0;
  weights.each([&](const Matrix& m, const Tensor&) {
    most_rows = std::max(most_rows, m.rows);
    most_k = std::max(most_k, m.k);
  });
  OwnedTensor x(kFloat32, {tokens * most_k}), out(kFloat32, {tokens * most_rows});
  OwnedTensor scratch(kUInt8, {ggml_mul_mat_a8_workspace_bytes(tokens, most_k)});
  fill_random(x, 1);
  const Workspace workspace{scratch.view().data(), scratch.numel()};
  for (auto _ : state)
    weights.each([&](const Matrix& m, const Tensor& w) {
      ggml_mul_mat_a8(out.view().slice(0, 0, tokens * m.rows).view({tokens, m.rows}), w,
                      x.view().slice(0, 0, tokens * m.k).view({tokens, m.k}), m.type, m.rows, {}, workspace);
    });
  set_traffic(state, weights.bytes(), weights.operations(tokens));
  state.counters["of_read"] =
      benchmark::Counter(static_cast<double>(weights.bytes()) * 1e-9 / read_gb_per_s(),
                         benchmark::Counter::kIsIterationInvariantRate);
}

/// All products of one decode step of SmolLM2-135M (Q4_1, output Q8_0); 1000 / ms is a bound of its tokens/s.
void BM_smollm2_135m(benchmark::State& state) {
  const Weights weights({{3, 576, 576, 2}, {3, 192, 576, 2}, {3, 1536, 576, 2}, {3, 576, 1536, 1}}, 30);
  run(state, weights, state.range(0));
}
BENCHMARK(BM_smollm2_135m)
    ->ArgName("tokens")
    ->Arg(1)
    ->Arg(2)
    ->Arg(8)
    ->Arg(128)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_smollm2_output(benchmark::State& state) {
  run(state, Weights({{8, 49152, 576, 1}}, 1), state.range(0));
}
BENCHMARK(BM_smollm2_output)->ArgName("tokens")->Arg(1)->Arg(8)->UseRealTime()->Unit(benchmark::kMillisecond);

/// One matrix that stays in the caches: the cost of a call.
void BM_cached(benchmark::State& state) {
  run(state, Weights({{state.range(0), state.range(1), state.range(2), 1}}, 1), state.range(3));
}
BENCHMARK(BM_cached)
    ->ArgNames({"type", "rows", "k", "tokens"})
    ->Args({3, 192, 576, 1})
    ->Args({3, 576, 576, 1})
    ->Args({3, 1536, 576, 1})
    ->Args({3, 576, 1536, 1})
    ->UseRealTime();

/// A 7B model's matrices, one token and a prompt.
void BM_large(benchmark::State& state) {
  run(state,
      Weights({{state.range(0), 4096, 4096, 1},
               {state.range(0), 11008, 4096, 1},
               {state.range(0), 4096, 11008, 1}},
              1),
      state.range(1));
}
void large(benchmark::internal::Benchmark* b) {
  b->ArgNames({"type", "tokens"});
  for (const GgmlLayout& layout : kGgmlLayouts)
    for (std::int64_t tokens : {1, 64}) b->Args({static_cast<std::int64_t>(layout.type), tokens});
}
BENCHMARK(BM_large)->Apply(large)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace musaic::bench
