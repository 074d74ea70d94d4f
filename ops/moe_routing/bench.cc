#include "bench/bench.h"

namespace musaic::bench {
namespace {

struct Tokens {
  OwnedTensor logits, bias, weights, ids;
  Tokens(DType dtype, std::int64_t tokens, std::int64_t experts, std::int64_t k)
      : logits(dtype, {tokens, experts}),
        bias(kFloat32, {experts}),
        weights(kFloat32, {tokens, k}),
        ids(kInt32, {tokens, k}) {
    fill_random(logits, 1);
    fill_random(bias, 2);
  }
};

/// Reads the logits, writes k weights and ids a token.
void set_routing_traffic(benchmark::State& state, DType dtype, std::int64_t tokens, std::int64_t experts,
                         std::int64_t k) {
  set_traffic(state, tokens * (experts * size_bytes(dtype) + k * 8));
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"tokens", "experts", "k"})->UseRealTime();
  b->Args({1, 128, 8})->Args({512, 128, 8})->Args({4096, 256, 8});
}

void BM_topk_softmax(benchmark::State& state, DType dtype) {
  const std::int64_t tokens = state.range(0), experts = state.range(1), k = state.range(2);
  const Tokens t(dtype, tokens, experts, k);
  for (auto _ : state) topk_softmax(t.weights, t.ids, t.logits, {}, true);
  set_routing_traffic(state, dtype, tokens, experts, k);
}
BENCHMARK_CAPTURE(BM_topk_softmax, float32, kFloat32)->Apply(shapes);
BENCHMARK_CAPTURE(BM_topk_softmax, bfloat16, kBFloat16)->Apply(shapes);

void BM_topk_sigmoid(benchmark::State& state) {
  const std::int64_t tokens = state.range(0), experts = state.range(1), k = state.range(2);
  const Tokens t(kFloat32, tokens, experts, k);
  for (auto _ : state) topk_sigmoid(t.weights, t.ids, t.logits, t.bias, true);
  set_routing_traffic(state, kFloat32, tokens, experts, k);
}
BENCHMARK(BM_topk_sigmoid)->Apply(shapes);

/// Eight groups of which four are kept.
void BM_moe_fused_gate(benchmark::State& state) {
  const std::int64_t tokens = state.range(0), experts = state.range(1), k = state.range(2);
  const Tokens t(kFloat32, tokens, experts, k);
  for (auto _ : state) moe_fused_gate(t.weights, t.ids, t.logits, t.bias, 8, 4, 0, 2.5);
  set_routing_traffic(state, kFloat32, tokens, experts, k);
}
BENCHMARK(BM_moe_fused_gate)->Apply(shapes);

void BM_kimi_k2_moe_fused_gate(benchmark::State& state) {
  const std::int64_t tokens = state.range(0), experts = 384, k = 6;
  const Tokens t(kFloat32, tokens, experts, k);
  for (auto _ : state) kimi_k2_moe_fused_gate(t.weights, t.ids, t.logits, t.bias, true, 2.872);
  set_routing_traffic(state, kFloat32, tokens, experts, k);
}
BENCHMARK(BM_kimi_k2_moe_fused_gate)->ArgName("tokens")->Arg(1)->Arg(512)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
