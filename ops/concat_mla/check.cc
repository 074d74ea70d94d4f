#include "cli/check/check.h"

#include "ops/concat_mla/reference.h"

namespace musaic::checks {

std::vector<Case> concat_mla_cases() {
  std::vector<Case> cases;
  for (const bool shared : {true, false})
    for (const DType dtype : kFloatTypes)
      for (const auto& [n, r] : {std::pair<std::int64_t, std::int64_t>{128, 64}, {7, 3}}) {
        cases.push_back(
            {shared ? "concat_mla_k" : "concat_mla_absorb_q",
             "3x4x" + std::to_string(n) + "+" + std::to_string(r), dtype, Tier::kExact, "0",
             [shared, dtype, n = n, r = r](Call& call) {
               const int out = call.output(dtype, {3, 4, n + r}), a = call.normal(dtype, {3, 4, n}),
                         b = call.normal(dtype, {3, shared ? 1 : 4, r});
               Expected e{out,
                          reference::concat(call.values(a), static_cast<std::size_t>(n), call.values(b),
                                            static_cast<std::size_t>(r), 12, shared ? 4 : 1),
                          {}};
               e.tolerance = no_tolerance(e.values);
               return std::vector<Expected>{e};
             }});
      }
  return cases;
}

}  // namespace musaic::checks
