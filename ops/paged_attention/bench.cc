#include "bench/bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace musaic::bench {
namespace {

struct Model {
  std::int64_t heads, kv_heads, head_dim;
};

/// `requests` rows of `context` keys each, the last `queries` of them with queries; pages of 16 in random
/// places.
void BM_paged_attention(benchmark::State& state, Model model, DType query_dtype, DType cache_dtype) {
  const std::int64_t requests = state.range(0), queries = state.range(1), context = state.range(2);
  constexpr std::int64_t kPage = 16;
  const std::int64_t pages_each = (context + kPage - 1) / kPage, pages = requests * pages_each,
                     tokens = requests * queries;
  OwnedTensor query(query_dtype, {tokens, model.heads, model.head_dim}),
      out(query_dtype, {tokens, model.heads, model.head_dim}),
      k(cache_dtype, {pages, kPage, model.kv_heads, model.head_dim}),
      v(cache_dtype, {pages, kPage, model.kv_heads, model.head_dim}), table(kInt32, {requests, pages_each}),
      lengths(kInt32, {requests}), starts(kInt32, {requests + 1});
  fill_random(query, 1);
  fill_random(k, 2);
  fill_random(v, 3);
  auto* page = table.data_as<std::int32_t>();
  std::iota(page, page + pages, 0);
  std::shuffle(page, page + pages, std::mt19937(4));
  for (std::int64_t r = 0; r <= requests; ++r) {
    if (r < requests) lengths.data_as<std::int32_t>()[r] = static_cast<std::int32_t>(context);
    starts.data_as<std::int32_t>()[r] = static_cast<std::int32_t>(r * queries);
  }
  OwnedTensor scratch(kUInt8, {paged_attention_workspace_bytes(query, k, v, table)});
  const Workspace workspace{scratch.view().data(), scratch.numel()};
  const double scale = 1.0 / std::sqrt(static_cast<double>(model.head_dim));
  for (auto _ : state)
    paged_attention(out, Tensor(), query, k, v, table, lengths, starts, scale, 0, 0.0, true, {}, workspace);
  // Visible (query, key) pairs, each 2 products of head_dim in either direction; every key and value read
  // once.
  const std::int64_t pairs = requests * (queries * context - queries * (queries - 1) / 2);
  set_traffic(state,
              2 * requests * context * model.kv_heads * model.head_dim * size_bytes(cache_dtype) +
                  2 * tokens * model.heads * model.head_dim * size_bytes(query_dtype),
              4 * pairs * model.heads * model.head_dim);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"requests", "queries", "context"});
  for (std::int64_t context : {64, 512, 2048}) b->Args({1, 1, context});
  b->Args({16, 1, 1024})->Args({1, 512, 512})->Args({1, 128, 2048});
}
constexpr Model kSmall{9, 3, 64}, kLarge{32, 8, 128};
BENCHMARK_CAPTURE(BM_paged_attention, h9_3_d64_f16, kSmall, kFloat32, kFloat16)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_paged_attention, h9_3_d64_f32, kSmall, kFloat32, kFloat32)->Apply(shapes)->UseRealTime();
BENCHMARK_CAPTURE(BM_paged_attention, h32_8_d128_bf16, kLarge, kBFloat16, kBFloat16)
    ->Apply(shapes)
    ->UseRealTime();

}  // namespace
}  // namespace musaic::bench
