#include "bench/bench.h"

namespace musaic::bench {
namespace {

/// Reads both parts, writes the joined keys.
void BM_concat_mla_k(benchmark::State& state) {
  const std::int64_t tokens = state.range(0), heads = 128;
  OwnedTensor k(kBFloat16, {tokens, heads, 192}), nope(kBFloat16, {tokens, heads, 128}),
      rope(kBFloat16, {tokens, 1, 64});
  fill_random(nope, 1);
  fill_random(rope, 2);
  for (auto _ : state) concat_mla_k(k, nope, rope);
  set_traffic(state, k.size_in_bytes() + nope.size_in_bytes() + rope.size_in_bytes());
}
BENCHMARK(BM_concat_mla_k)->ArgName("tokens")->Arg(1)->Arg(1024)->UseRealTime();

void BM_concat_mla_absorb_q(benchmark::State& state) {
  const std::int64_t tokens = state.range(0), heads = 128;
  OwnedTensor out(kBFloat16, {tokens, heads, 576}), a(kBFloat16, {tokens, heads, 512}),
      b(kBFloat16, {tokens, heads, 64});
  fill_random(a, 1);
  fill_random(b, 2);
  for (auto _ : state) concat_mla_absorb_q(out, a, b);
  set_traffic(state, 2 * out.size_in_bytes());
}
BENCHMARK(BM_concat_mla_absorb_q)->ArgName("tokens")->Arg(1)->Arg(256)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
