#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> kv_cache_store_timings() {
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t tokens : {1, 512, 2048}) {
      const Shape rows = {tokens, 8, 128}, cache = {tokens / 16 + 8, 16, 8, 128};
      all.push_back({"kv_cache_store", to_text(rows), dtype,
                     [=](Call& call) {
                       call.updated_pattern(dtype, cache, call.any());
                       call.updated_pattern(dtype, cache, call.any());
                       call.pattern(dtype, rows, call.any());
                       call.pattern(dtype, rows, call.any());
                       call.input(kInt64, {tokens},
                                  [](std::int64_t t) { return static_cast<double>(t + 16); });
                     },
                     // Keys and values are read once and written once.
                     4 * tokens * 8 * 128 * size_bytes(dtype)});
    }
  return all;
}

}  // namespace musaic::checks
