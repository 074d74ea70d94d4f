#include "ops/rotary_embedding/rotary_embedding.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/rotary_embedding/args.h"

namespace musaic {
namespace {

constexpr const char* kOp = "rotary_embedding";
constexpr FaultSite kPositionsSite{kOp, "positions"};

/// The leading one or two dimensions of `t` as rows.
RowView tokens_of(const Tensor& t, int lead) {
  if (lead == 1) return {t.data(), 1, t.stride(0), 0};
  if (t.size(0) == 1 || t.stride(0) == t.size(1) * t.stride(1)) return {t.data(), 1, t.stride(1), 0};
  return {t.data(), t.size(1), t.stride(0), t.stride(1)};
}

TokenHeads heads_of(const Tensor& t, int lead, std::int64_t head_size) {
  const bool flat = t.ndim() == lead + 1;
  return {tokens_of(t, lead), flat ? t.size(lead) / head_size : t.size(lead),
          flat ? head_size : t.stride(lead)};
}

void check_heads(Check& check, const char* name, const Tensor& t, const Tensor& positions,
                 std::int64_t head_size) {
  check.tensor(name, t)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .rank(positions.ndim() + 1, positions.ndim() + 2)
      .last_dim_contiguous()
      .aligned();
  const int lead = positions.ndim(), last = t.ndim() - 1;
  const std::string got = "shape " + shape_to_string(t.shape(), t.ndim());
  for (int d = 0; d < lead; ++d)
    check.that(t.size(d) == positions.size(d), name, got,
               "leading " + shape_to_string(positions.shape(), lead) + " (from positions)");
  const std::string size = std::to_string(head_size);
  if (last == lead)
    check.that(t.size(last) % head_size == 0, name, got,
               "a last dimension that is a multiple of head_size=" + size);
  else
    check.that(t.size(last) == head_size, name, got, "a last dimension of head_size=" + size);
}

/// The very first head of query and key; what else overlaps is the caller's to know, since slices of packed
/// tensors interleave.
Tensor first_head(const Tensor& t, std::int64_t head_size) {
  return Tensor(t.data(), t.dtype(), {t.numel() > 0 ? head_size : 0}, t.device());
}

}  // namespace

void rotary_embedding(const Tensor& query, const Tensor& key, const Tensor& positions,
                      const Tensor& cos_sin_cache, std::int64_t head_size, bool is_neox, Stream stream) {
  Check check(kOp);
  check.that(head_size > 0, "head_size", std::to_string(head_size), "a positive number");
  check.tensor("positions", positions).dtype({kInt32, kInt64}).rank(1, 2).aligned();
  check_heads(check, "query", query, positions, head_size);
  if (key) {
    check_heads(check, "key", key, positions, head_size);
    check.tensor("key", key).same_dtype("query", query);
  }
  check.tensor("cos_sin_cache", cos_sin_cache)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .rank(2, 2)
      .last_dim_contiguous()
      .aligned();
  const std::int64_t rotary_dim = cos_sin_cache.size(1);
  check.that(rotary_dim % 2 == 0 && rotary_dim <= head_size, "cos_sin_cache",
             "shape " + shape_to_string(cos_sin_cache.shape(), 2),
             "an even last dimension, at most head_size=" + std::to_string(head_size));
  check.no_overlap("query", query, "cos_sin_cache", cos_sin_cache, false);
  check.no_overlap("query", query, "positions", positions, false);
  if (key) {
    check.no_overlap("key", first_head(key, head_size), "query", first_head(query, head_size), false);
    check.no_overlap("key", key, "cos_sin_cache", cos_sin_cache, false);
    check.no_overlap("key", key, "positions", positions, false);
  }

  const Backend backend = enter(check.device());
  const int lead = positions.ndim();
  RotaryEmbeddingArgs args{};
  args.query = heads_of(query, lead, head_size);
  if (key) args.key = heads_of(key, lead, head_size);
  args.positions = tokens_of(positions, lead);
  args.positions_are_64_bit = positions.dtype() == kInt64;
  args.cache = cos_sin_cache.data();
  args.dtype = float_kind(query.dtype());
  args.cache_dtype = float_kind(cos_sin_cache.dtype());
  args.is_neox = is_neox;
  args.num_tokens = positions.numel();
  args.max_position = cos_sin_cache.size(0);
  args.cache_stride = cos_sin_cache.stride(0);
  args.num_pairs = rotary_dim / 2;
  args.fault = {backend.faults, &kPositionsSite};
  if (args.num_tokens > 0) launch(backend, &OpTable::rotary_embedding, check.op(), args, stream);
}

}  // namespace musaic
