#include "ops/merge_state/merge_state.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/merge_state/args.h"

namespace musaic {
namespace {

constexpr const char* kOp = "merge_state_v2";

/// [tokens, heads], then at most one more dimension, as rows.
RowView heads_of(const Tensor& t) {
  if (t.size(0) == 1) return {t.data(), 1, t.stride(1), 0};
  if (t.size(1) == 1) return {t.data(), 1, t.stride(0), 0};
  if (t.stride(0) == t.size(1) * t.stride(1)) return {t.data(), 1, t.stride(1), 0};
  return {t.data(), t.size(1), t.stride(0), t.stride(1)};
}

}  // namespace

void merge_state_v2(const Tensor& v_merged, const Tensor& s_merged, const Tensor& v_a, const Tensor& s_a,
                    const Tensor& v_b, const Tensor& s_b, Stream stream) {
  Check check(kOp);
  Dim num_tokens("num_tokens"), num_heads("num_heads"), head_dim("head_dim");
  const auto check_v = [&](const char* name, const Tensor& t) {
    check.tensor(name, t)
        .dtype({kFloat32, kFloat16, kBFloat16})
        .shape({&num_tokens, &num_heads, &head_dim})
        .last_dim_contiguous()
        .aligned();
  };
  const auto check_s = [&](const char* name, const Tensor& t) {
    check.tensor(name, t).dtype({kFloat32}).shape({&num_tokens, &num_heads}).aligned();
  };
  check_v("v_a", v_a);
  check_s("s_a", s_a);
  check_v("v_b", v_b);
  check_s("s_b", s_b);
  check_v("v_merged", v_merged);
  check_s("s_merged", s_merged);
  const struct {
    const char* name;
    const Tensor& t;
  } outputs[] = {{"v_merged", v_merged}, {"s_merged", s_merged}},
    inputs[] = {{"v_a", v_a}, {"s_a", s_a}, {"v_b", v_b}, {"s_b", s_b}};
  for (const auto& o : outputs)
    for (const auto& i : inputs) check.no_overlap(o.name, o.t, i.name, i.t, true);
  check.no_overlap("v_merged", v_merged, "s_merged", s_merged, false);

  MergeStateArgs args{};
  args.v_merged = heads_of(v_merged);
  args.v_a = heads_of(v_a);
  args.v_b = heads_of(v_b);
  args.s_merged = heads_of(s_merged);
  args.s_a = heads_of(s_a);
  args.s_b = heads_of(s_b);
  args.merged_dtype = float_kind(v_merged.dtype());
  args.a_dtype = float_kind(v_a.dtype());
  args.b_dtype = float_kind(v_b.dtype());
  args.num_rows = num_tokens * num_heads;
  args.head_dim = head_dim;
  const Backend backend = enter(check.device());
  if (args.num_rows > 0) launch(backend, &OpTable::merge_state_v2, check.op(), args, stream);
}

}  // namespace musaic
