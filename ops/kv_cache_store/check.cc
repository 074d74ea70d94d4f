#include "cli/check/check.h"

#include "ops/kv_cache_store/reference.h"

namespace musaic::checks {

std::vector<Case> kv_cache_store_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t d : {1, 7, 64, 80})
      cases.push_back(
          {"kv_cache_store", "5x2x" + std::to_string(d), dtype, Tier::kExact, "0", [=](Call& call) {
             const int k_cache = call.updated(dtype, {3, 4, 2, d}),
                       v_cache = call.updated(dtype, {3, 4, 2, d}), key = call.normal(dtype, {5, 2, d}),
                       value = call.normal(dtype, {5, 2, d});
             // One token is padding; the others' slots differ.
             const int slots = call.input(kInt64, {5}, [](std::int64_t t) {
               return t == 2 ? -1.0 : static_cast<double>((t * 7 + 3) % 12);
             });
             std::vector<std::int64_t> at;
             for (const double s : call.values(slots)) at.push_back(static_cast<std::int64_t>(s));
             std::vector<Expected> all;
             for (const auto& [cache, rows] : {std::pair{k_cache, key}, std::pair{v_cache, value}}) {
               Expected e{cache,
                          reference::kv_cache_store(call.values(cache), call.values(rows), at,
                                                    static_cast<std::size_t>(2 * d)),
                          {}};
               e.tolerance = no_tolerance(e.values);
               all.push_back(e);
             }
             return all;
           }});
  return cases;
}

}  // namespace musaic::checks
