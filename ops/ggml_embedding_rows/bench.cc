#include "bench/bench.h"

namespace musaic::bench {
namespace {

/// Reads one row of the table a token, writes it as numbers.
void BM_ggml_embedding_rows(benchmark::State& state, std::int64_t type) {
  const std::int64_t tokens = state.range(0), hidden = state.range(1), vocab = 49152;
  const std::int64_t row_bytes = ggml_row_bytes(type, hidden);
  OwnedTensor w(kUInt8, {vocab * row_bytes}), ids(kInt32, {tokens}), out(kFloat32, {tokens, hidden});
  for (std::int64_t i = 0; i < tokens; ++i)
    ids.data_as<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7919 % vocab);
  for (auto _ : state) ggml_embedding_rows(out, w, ids, type);
  set_traffic(state, tokens * (row_bytes + hidden * 4));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "hidden"})->Args({1, 576})->Args({512, 576})->Args({512, 4096});
}
BENCHMARK_CAPTURE(BM_ggml_embedding_rows, q8_0, 8)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_ggml_embedding_rows, q4_k, 12)->Apply(shapes)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
