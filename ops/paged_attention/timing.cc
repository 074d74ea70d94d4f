#include <cmath>

#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> paged_attention_timings() {
  struct Size {
    std::int64_t requests, queries, context;
  };
  static constexpr std::int64_t kHeads = 32, kKvHeads = 8, kDim = 128, kPage = 16;
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Size s : {Size{1, 1, 64}, Size{1, 1, 2048}, Size{16, 1, 1024}, Size{1, 512, 512}}) {
      const std::int64_t pages_each = (s.context + kPage - 1) / kPage, pages = s.requests * pages_each,
                         tokens = s.requests * s.queries;
      const Shape heads = {tokens, kHeads, kDim}, cache = {pages, kPage, kKvHeads, kDim},
                  table = {s.requests, pages_each};
      all.push_back(
          {"paged_attention",
           std::to_string(s.requests) + "x" + std::to_string(s.queries) + "_context" +
               std::to_string(s.context),
           dtype, [=](Call& call) {
             call.output(dtype, heads);
             call.no_tensor();
             call.pattern(dtype, heads, call.any());
             call.pattern(dtype, cache, call.any());
             call.pattern(dtype, cache, call.any());
             // Pages in another order than that of the positions; 7919 is prime.
             call.input(kInt32, table, [=](std::int64_t i) { return static_cast<double>(i * 7919 % pages); });
             call.input(kInt32, {s.requests}, [=](std::int64_t) { return static_cast<double>(s.context); });
             call.input(kInt32, {s.requests + 1},
                        [=](std::int64_t r) { return static_cast<double>(r * s.queries); });
             call.scalar(1.0 / std::sqrt(static_cast<double>(kDim)));
             call.scalar(std::int64_t{0});
             call.scalar(0.0);
             call.scalar(true);
             const Tensor q = shape_only(dtype, heads), k = shape_only(dtype, cache),
                          t = shape_only(kInt32, table);
             call.set_workspace(paged_attention_workspace_bytes(q, k, k, t));
           }});
    }
  return all;
}

}  // namespace musaic::checks
