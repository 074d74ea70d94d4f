#include "ops/paged_attention/paged_attention.h"

#include <algorithm>
#include <cmath>

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/paged_attention/args.h"

namespace musaic {
namespace {

constexpr FaultSite kPageSite{"paged_attention", "page_table"};
constexpr FaultSite kLengthSite{"paged_attention", "seq_lens"};
constexpr FaultSite kStartsSite{"paged_attention", "query_starts"};

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

PagedAttentionPlan plan_for(std::int64_t num_tokens, std::int64_t num_requests, std::int64_t num_heads,
                            std::int64_t num_kv_heads, std::int64_t k_head_dim, std::int64_t v_head_dim,
                            std::int64_t max_context) {
  constexpr std::int64_t kRows = PagedAttentionPlan::kTileRows, kFloat = sizeof(float);
  // Few tiles cannot balance the threads, so their splits become tasks; more would only cost memory.
  constexpr std::int64_t kTilesPerWorker = 4, kMostPartialBytes = std::int64_t{64} << 20;
  PagedAttentionPlan p{};
  const std::int64_t group = num_kv_heads > 0 ? std::max<std::int64_t>(num_heads / num_kv_heads, 1) : 1;
  p.head_chunks = ceil_div(group, kRows);
  p.tile_heads = ceil_div(group, p.head_chunks);
  p.tile_queries = std::max<std::int64_t>(kRows / p.tile_heads, 1);
  p.k_padded = round_up(k_head_dim, 8);
  p.v_padded = round_up(v_head_dim, 8);
  p.workers = num_threads();
  p.max_splits = ceil_div(max_context, kAttentionSplit);
  p.state_bytes = round_up(num_requests, 64);
  p.scratch_bytes = round_up(kRows * (p.k_padded + 2 * p.v_padded + kAttentionSplit) * kFloat, 64);
  const std::int64_t token_bytes = num_heads * p.max_splits * p.partial_floats() * kFloat,
                     token_tiles = std::max<std::int64_t>(num_kv_heads * p.head_chunks, 1),
                     most_tokens =
                         p.max_splits > 1 && p.workers > 1 ? kTilesPerWorker * p.workers / token_tiles : 0;
  p.splits_apart = num_tokens <= most_tokens && num_tokens * token_bytes <= kMostPartialBytes;
  // Of the largest call that may want it, so that more tokens never want less.
  p.partial_bytes = std::min(std::min(num_tokens, most_tokens) * token_bytes, kMostPartialBytes);
  return p;
}

PagedAttentionGpuPlan gpu_plan_for(std::int64_t num_tokens, std::int64_t num_requests, std::int64_t num_heads,
                                   std::int64_t num_kv_heads, std::int64_t v_head_dim,
                                   std::int64_t max_context) {
  constexpr std::int64_t kRows = PagedAttentionGpuPlan::kTileRows, kFloat = sizeof(float);
  // A few blocks for every processor of a large device; tiles alone fill it where there are more.
  constexpr std::int64_t kBlocks = 2048, kMostPartialBytes = std::int64_t{64} << 20;
  PagedAttentionGpuPlan p{};
  const std::int64_t group = num_kv_heads > 0 ? std::max<std::int64_t>(num_heads / num_kv_heads, 1) : 1;
  p.head_chunks = ceil_div(group, kRows);
  p.tile_heads = ceil_div(group, p.head_chunks);
  p.max_splits = ceil_div(max_context, kAttentionSplit);
  p.state_bytes = round_up(num_requests, 64);
  const std::int64_t token_tiles = std::max<std::int64_t>(num_kv_heads * p.head_chunks, 1),
                     token_bytes = num_heads * p.max_splits * (v_head_dim + 2) * kFloat,
                     most_tokens = p.max_splits > 1 ? kBlocks / 2 / token_tiles : 0;
  const bool apart = num_tokens <= most_tokens && num_tokens * token_bytes <= kMostPartialBytes;
  p.parts = apart && num_tokens > 0 ? std::min(p.max_splits, kBlocks / (num_tokens * token_tiles)) : 1;
  // Of the largest call that may want it, so that more tokens never want less.
  p.partial_bytes = std::min(std::min(num_tokens, most_tokens) * token_bytes, kMostPartialBytes);
  return p;
}

bool is_finite_float(double v) { return std::isfinite(static_cast<float>(v)); }

}  // namespace

void paged_attention(const Tensor& out, const Tensor& lse, const Tensor& query, const Tensor& k_cache,
                     const Tensor& v_cache, const Tensor& page_table, const Tensor& seq_lens,
                     const Tensor& query_starts, double scale, std::int64_t window, double soft_cap,
                     bool causal, Stream stream, Workspace workspace) {
  Check check("paged_attention");
  Dim num_tokens("num_tokens"), num_heads("num_heads"), k_head_dim("k_head_dim"), v_head_dim("v_head_dim"),
      num_pages("num_pages"), page_size("page_size"), num_kv_heads("num_kv_heads"),
      num_requests("num_requests"), max_pages("max_pages");
  check.tensor("query", query)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&num_tokens, &num_heads, &k_head_dim})
      .last_dim_contiguous()
      .aligned();
  check.tensor("k_cache", k_cache)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&num_pages, &page_size, &num_kv_heads, &k_head_dim})
      .last_dim_contiguous()
      .aligned();
  check.tensor("v_cache", v_cache)
      .same_dtype("k_cache", k_cache)
      .shape({&num_pages, &page_size, &num_kv_heads, &v_head_dim})
      .last_dim_contiguous()
      .aligned();
  check.that(num_heads == 0 || (num_kv_heads > 0 && num_heads % num_kv_heads == 0), "query",
             std::to_string(num_heads) + " heads",
             "a multiple of the caches' " + std::to_string(num_kv_heads) + " heads");
  check.tensor("out", out)
      .same_dtype("query", query)
      .shape({&num_tokens, &num_heads, &v_head_dim})
      .last_dim_contiguous()
      .aligned();
  if (lse) check.tensor("lse", lse).dtype({kFloat32}).shape({&num_tokens, &num_heads}).aligned();
  check.tensor("page_table", page_table).dtype({kInt32}).shape({&num_requests, &max_pages}).aligned();
  check.tensor("seq_lens", seq_lens).dtype({kInt32}).shape({&num_requests}).contiguous().aligned();
  if (query_starts) {
    Dim starts("num_requests+1", num_requests + 1, "page_table");
    check.tensor("query_starts", query_starts).dtype({kInt32}).shape({&starts}).contiguous().aligned();
  } else {
    check.that(num_tokens == num_requests, "query",
               std::to_string(num_tokens) + " tokens without query_starts",
               "one for each of the " + std::to_string(num_requests) + " requests (from page_table)");
  }
  if (!is_finite_float(scale)) check.fail("scale", std::to_string(scale), "a finite number");
  check.that(window >= 0, "window", std::to_string(window), "a number of positions, or 0 for all");
  check.that(soft_cap == 0 || (is_finite_float(soft_cap) && static_cast<float>(soft_cap) > 0), "soft_cap",
             std::to_string(soft_cap), "a finite positive number, or 0 for none");
  const struct {
    const char* name;
    const Tensor& tensor;
  } inputs[] = {{"query", query},           {"k_cache", k_cache},   {"v_cache", v_cache},
                {"page_table", page_table}, {"seq_lens", seq_lens}, {"query_starts", query_starts}};
  for (const auto& input : inputs) {
    if (!input.tensor) continue;
    check.no_overlap("out", out, input.name, input.tensor, false);
    if (lse) check.no_overlap("lse", lse, input.name, input.tensor, false);
  }
  if (lse) check.no_overlap("lse", lse, "out", out, false);

  const Backend backend = enter(check.device());
  if (num_tokens == 0 || num_heads == 0) return;

  PagedAttentionArgs args{};
  args.plan = plan_for(num_tokens, num_requests, num_heads, num_kv_heads, k_head_dim, v_head_dim,
                       max_pages * page_size);
  args.gpu_plan =
      gpu_plan_for(num_tokens, num_requests, num_heads, num_kv_heads, v_head_dim, max_pages * page_size);
  const std::int64_t wanted = std::max(args.plan.workspace_bytes(), args.gpu_plan.workspace_bytes());
  check.that(workspace.data != nullptr && workspace.bytes >= wanted, "workspace",
             std::to_string(workspace.data != nullptr ? workspace.bytes : 0) + " bytes",
             "at least the " + std::to_string(wanted) + " of paged_attention_workspace_bytes");
  check.that(
      reinterpret_cast<std::uintptr_t>(workspace.data) % 64 == 0, "workspace",
      "an address " + std::to_string(reinterpret_cast<std::uintptr_t>(workspace.data) % 64) + " bytes off",
      "a multiple of 64 bytes");
  args.out = out.data();
  args.lse = lse.data_as<float>();
  args.query = query.data();
  args.k_cache = k_cache.data();
  args.v_cache = v_cache.data();
  args.page_table = page_table.data_as<std::int32_t>();
  args.seq_lens = seq_lens.data_as<std::int32_t>();
  args.query_starts = query_starts.data_as<std::int32_t>();
  args.dtype = float_kind(query.dtype());
  args.cache_dtype = float_kind(k_cache.dtype());
  args.out_token_stride = out.stride(0);
  args.out_head_stride = out.stride(1);
  args.lse_token_stride = lse ? lse.stride(0) : 0;
  args.lse_head_stride = lse ? lse.stride(1) : 0;
  args.query_token_stride = query.stride(0);
  args.query_head_stride = query.stride(1);
  args.k_page_stride = k_cache.stride(0);
  args.k_slot_stride = k_cache.stride(1);
  args.k_head_stride = k_cache.stride(2);
  args.v_page_stride = v_cache.stride(0);
  args.v_slot_stride = v_cache.stride(1);
  args.v_head_stride = v_cache.stride(2);
  args.table_request_stride = page_table.stride(0);
  args.table_page_stride = page_table.stride(1);
  args.num_tokens = num_tokens;
  args.num_requests = num_requests;
  args.num_heads = num_heads;
  args.num_kv_heads = num_kv_heads;
  args.k_head_dim = k_head_dim;
  args.v_head_dim = v_head_dim;
  args.num_pages = num_pages;
  args.page_size = page_size;
  args.max_pages = max_pages;
  args.window = window;
  args.scale = static_cast<float>(scale);
  args.soft_cap = static_cast<float>(soft_cap);
  args.causal = causal;
  args.page_fault = {backend.faults, &kPageSite};
  args.length_fault = {backend.faults, &kLengthSite};
  args.starts_fault = {backend.faults, &kStartsSite};
  args.workspace = workspace.data;
  launch(backend, &OpTable::paged_attention, check.op(), args, stream);
}

std::int64_t paged_attention_workspace_bytes(const Tensor& query, const Tensor& k_cache,
                                             const Tensor& v_cache, const Tensor& page_table) {
  const Check check("paged_attention_workspace_bytes");
  const struct {
    const char* name;
    const Tensor& tensor;
    int rank;
  } shapes[] = {
      {"query", query, 3}, {"k_cache", k_cache, 4}, {"v_cache", v_cache, 4}, {"page_table", page_table, 2}};
  for (const auto& s : shapes)
    check.that(s.tensor.ndim() == s.rank, s.name,
               "shape " + shape_to_string(s.tensor.shape(), s.tensor.ndim()),
               std::to_string(s.rank) + " dimensions");
  const std::int64_t max_context = page_table.size(1) * k_cache.size(1);
  return std::max(plan_for(query.size(0), page_table.size(0), query.size(1), k_cache.size(2), query.size(2),
                           v_cache.size(3), max_context)
                      .workspace_bytes(),
                  gpu_plan_for(query.size(0), page_table.size(0), query.size(1), k_cache.size(2),
                               v_cache.size(3), max_context)
                      .workspace_bytes());
}

}  // namespace musaic
