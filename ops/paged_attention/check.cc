#include "cli/check/check.h"

#include <cmath>

#include "ops/paged_attention/reference.h"

namespace musaic::checks {
namespace {

struct Size {
  const char* name;
  std::int64_t heads, kv_heads, k_dim, v_dim;
  std::vector<std::int64_t> lengths, queries;  // of the requests
  std::int64_t window;
  double soft_cap;
};

std::vector<Expected> attention(Call& call, DType dtype, const Size& s) {
  constexpr std::int64_t kPage = 16;
  constexpr double kScale = 0.125;
  const auto requests = static_cast<std::int64_t>(s.lengths.size());
  std::int64_t tokens = 0, max_pages = 1;
  std::vector<std::int64_t> starts{0};
  for (std::size_t r = 0; r < s.lengths.size(); ++r) {
    starts.push_back(tokens += s.queries[r]);
    max_pages = std::max(max_pages, (s.lengths[r] + kPage - 1) / kPage);
  }
  const std::int64_t pages = requests * max_pages;
  const int out = call.output(dtype, {tokens, s.heads, s.v_dim}),
            lse = call.output(kFloat32, {tokens, s.heads}),
            query = call.normal(dtype, {tokens, s.heads, s.k_dim}),
            k = call.normal(dtype, {pages, kPage, s.kv_heads, s.k_dim}),
            v = call.normal(dtype, {pages, kPage, s.kv_heads, s.v_dim});
  // Pages of the requests take turns, from the last page down.
  const int table = call.input(kInt32, {requests, max_pages}, [&](std::int64_t i) {
    return static_cast<double>(pages - 1 - (i % max_pages * requests + i / max_pages));
  });
  const auto integers = [&](const std::vector<std::int64_t>& values) {
    return call.input(kInt32, {static_cast<std::int64_t>(values.size())}, [&](std::int64_t i) {
      return static_cast<double>(values[static_cast<std::size_t>(i)]);
    });
  };
  integers(s.lengths);
  integers(starts);
  call.scalar(kScale);
  call.scalar(s.window);
  call.scalar(s.soft_cap);
  call.scalar(true);
  const auto shape_of = [&](DType type, const Shape& shape) {
    return Tensor(nullptr, type, shape.data(), nullptr, static_cast<int>(shape.size()), Device{});
  };
  call.set_workspace(paged_attention_workspace_bytes(
      shape_of(dtype, {tokens, s.heads, s.k_dim}), shape_of(dtype, {pages, kPage, s.kv_heads, s.k_dim}),
      shape_of(dtype, {pages, kPage, s.kv_heads, s.v_dim}), shape_of(kInt32, {requests, max_pages})));

  const auto queries = call.rows(query, s.k_dim), keys = call.rows(k, s.k_dim),
             values = call.rows(v, s.v_dim);
  const std::vector<double> page = call.values(table);
  Expected e{out, {}, {}}, l{lse, {}, {}};
  for (std::size_t r = 0; r < s.lengths.size(); ++r)
    for (std::int64_t i = 0; i < s.queries[r]; ++i)
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const std::int64_t position = s.lengths[r] - s.queries[r] + i, kv_head = h / (s.heads / s.kv_heads);
        std::vector<const double*> seen_keys, seen_values;
        for (std::int64_t p = s.window > 0 ? std::max<std::int64_t>(0, position - s.window + 1) : 0;
             p <= position; ++p) {
          const auto entry = static_cast<std::size_t>(static_cast<std::int64_t>(r) * max_pages + p / kPage);
          const auto row = static_cast<std::size_t>(
              (static_cast<std::int64_t>(page[entry]) * kPage + p % kPage) * s.kv_heads + kv_head);
          seen_keys.push_back(keys[row].data());
          seen_values.push_back(values[row].data());
        }
        const reference::Attention a =
            reference::attention(queries[static_cast<std::size_t>((starts[r] + i) * s.heads + h)], seen_keys,
                                 seen_values, kScale, s.soft_cap, static_cast<std::size_t>(s.v_dim));
        const reference::AttentionError error =
            reference::attention_error(a, seen_values, static_cast<std::size_t>(s.k_dim), s.soft_cap > 0);
        for (std::size_t d = 0; d < a.out.size(); ++d) {
          e.values.push_back(a.out[d]);
          e.tolerance.push_back(error.out[d] + std::fabs(a.out[d]) * epsilon(dtype) * 1.05 + smallest(dtype));
        }
        l.values.push_back(a.lse);
        l.tolerance.push_back(error.lse);
      }
  return {e, l};
}

}  // namespace

std::vector<Case> paged_attention_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const Size& s : {Size{"decode-h9x3-d64-300", 9, 3, 64, 64, {300, 17}, {1, 1}, 0, 0.0},
                          Size{"prefill-h4x1-d80x40-30", 4, 1, 80, 40, {30, 5}, {12, 5}, 0, 0.0},
                          Size{"window-cap-h2x2-d33-270", 2, 2, 33, 33, {270}, {3}, 100, 20.0}})
      cases.push_back({"paged_attention", s.name, dtype, Tier::kExact,
                       "weights, sums and values to float32, |y| u",
                       [=](Call& call) { return attention(call, dtype, s); }});
  return cases;
}

}  // namespace musaic::checks
