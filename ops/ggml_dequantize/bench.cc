#include "bench/bench.h"

namespace musaic::bench {
namespace {

/// Reads the blocks, writes the numbers.
void BM_ggml_dequantize(benchmark::State& state, std::int64_t type, DType dtype) {
  const std::int64_t m = state.range(0), n = state.range(1), bytes = ggml_row_bytes(type, m * n);
  OwnedTensor w(kUInt8, {bytes}), out(dtype, {m, n});
  for (auto _ : state) ggml_dequantize(out, w, type, m, n);
  set_traffic(state, bytes + m * n * size_bytes(dtype));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"m", "n"})->Args({576, 1536})->Args({11008, 4096});
}
BENCHMARK_CAPTURE(BM_ggml_dequantize, q4_1_float16, 3, kFloat16)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_ggml_dequantize, q8_0_float32, 8, kFloat32)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_ggml_dequantize, q4_k_bfloat16, 12, kBFloat16)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_ggml_dequantize, q6_k_float16, 14, kFloat16)->Apply(shapes)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
