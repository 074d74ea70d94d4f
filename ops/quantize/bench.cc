#include "bench/bench.h"

namespace musaic::bench {
namespace {

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "hidden"})->Args({1, 7168})->Args({128, 7168})->Args({4096, 7168})->UseRealTime();
}

/// Reads the input, writes a byte an element.
void set_quantize_traffic(benchmark::State& state, DType dtype, std::int64_t reads) {
  set_traffic(state, state.range(0) * state.range(1) * (reads * size_bytes(dtype) + 1));
}

void BM_per_token_quant_8bit(benchmark::State& state, DType dtype, DType codes) {
  const std::int64_t tokens = state.range(0), hidden = state.range(1);
  OwnedTensor in(dtype, {tokens, hidden}), q(codes, {tokens, hidden}), s(kFloat32, {tokens});
  fill_random(in, 1);
  for (auto _ : state) per_token_quant_8bit(q, s, in);
  set_quantize_traffic(state, dtype, 1);
}
BENCHMARK_CAPTURE(BM_per_token_quant_8bit, bfloat16_e4m3fn, kBFloat16, kFloat8E4M3FN)->Apply(shapes);
BENCHMARK_CAPTURE(BM_per_token_quant_8bit, bfloat16_int8, kBFloat16, kInt8)->Apply(shapes);

void BM_per_token_group_quant_8bit(benchmark::State& state, DType dtype, DType codes) {
  const std::int64_t tokens = state.range(0), hidden = state.range(1);
  OwnedTensor in(dtype, {tokens, hidden}), q(codes, {tokens, hidden}), s(kFloat32, {tokens, hidden / 128});
  fill_random(in, 1);
  for (auto _ : state) per_token_group_quant_8bit(q, s, in, {}, 128, 1e-10, -448, 448);
  set_quantize_traffic(state, dtype, 1);
}
BENCHMARK_CAPTURE(BM_per_token_group_quant_8bit, bfloat16_e4m3fn, kBFloat16, kFloat8E4M3FN)->Apply(shapes);

/// The largest element is looked for in a pass of its own.
void BM_per_tensor_quant_8bit(benchmark::State& state, DType dtype, DType codes) {
  const std::int64_t tokens = state.range(0), hidden = state.range(1);
  OwnedTensor in(dtype, {tokens, hidden}), q(codes, {tokens, hidden}), s(kFloat32, {1});
  fill_random(in, 1);
  for (auto _ : state) per_tensor_quant_8bit(q, s, in);
  set_quantize_traffic(state, dtype, 2);
}
BENCHMARK_CAPTURE(BM_per_tensor_quant_8bit, bfloat16_e4m3fn, kBFloat16, kFloat8E4M3FN)->Apply(shapes);

}  // namespace
}  // namespace musaic::bench
