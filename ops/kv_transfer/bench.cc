#include "bench/bench.h"

#include <cstring>

namespace musaic::bench {
namespace {

constexpr std::int64_t kTokens = 8192;

/// Pages of 16 tokens in another order; every thread, for the copy's own limit.
void BM_transfer_kv_per_layer_mla(benchmark::State& state) {
  const std::int64_t item = state.range(0), quota = state.range(1);
  OwnedTensor src(kUInt8, {kTokens, item}), dst(kUInt8, {kTokens, item}), from(kInt64, {kTokens}),
      to(kInt64, {kTokens});
  fill_random(src, 1);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    from.data_as<std::int64_t>()[t] = t / 16 * 37 % (kTokens / 16) * 16 + t % 16;
    to.data_as<std::int64_t>()[t] = t;
  }
  for (auto _ : state) transfer_kv_per_layer_mla(src, dst, from, to, item, quota);
  set_traffic(state, 2 * kTokens * item);
}
BENCHMARK(BM_transfer_kv_per_layer_mla)
    ->ArgNames({"item", "quota"})
    ->Args({128, 2})
    ->Args({1024, 2})
    ->Args({8192, 1})
    ->Args({8192, 2})
    ->UseRealTime();

/// The same bytes in one copy, by one thread.
void BM_memcpy(benchmark::State& state) {
  const std::int64_t item = state.range(0);
  OwnedTensor src(kUInt8, {kTokens, item}), dst(kUInt8, {kTokens, item});
  fill_random(src, 1);
  for (auto _ : state) {
    std::memcpy(dst.view().data(), src.view().data(), static_cast<std::size_t>(kTokens * item));
    benchmark::ClobberMemory();
  }
  set_traffic(state, 2 * kTokens * item);
}
BENCHMARK(BM_memcpy)->ArgName("item")->Arg(128)->Arg(1024)->Arg(8192)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
