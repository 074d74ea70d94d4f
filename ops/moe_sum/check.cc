#include "cli/check/check.h"

#include "ops/moe_sum/reference.h"

namespace musaic::checks {

std::vector<Case> moe_sum_cases() {
  std::vector<Case> cases;
  for (const bool reduce : {false, true})
    for (const DType dtype : kFloatTypes)
      for (const std::int64_t k : {1, 3, 8})
        for (const std::int64_t hidden : {7, 1024, 2051}) {
          cases.push_back(
              {reduce ? "moe_sum_reduce" : "moe_sum", "3x" + std::to_string(k) + "x" + std::to_string(hidden),
               dtype, Tier::kExact, "|y| u + (k + 2) 2^-24 sum of |terms|", [=](Call& call) {
                 const int out = call.output(dtype, {3, hidden}), in = call.normal(dtype, {3, k, hidden});
                 std::vector<std::vector<double>> weights(3);
                 double factor = 1;
                 if (reduce) {
                   weights = call.rows(call.normal(kFloat32, {3, k}), k);
                   factor = 2.5;
                   call.scalar(factor);
                 }
                 Expected e{out, {}, {}};
                 const auto rows = call.rows(in, k * hidden);
                 for (std::size_t t = 0; t < 3; ++t) {
                   const reference::Sum s =
                       reference::moe_sum(rows[t], static_cast<std::size_t>(k), weights[t], factor);
                   for (std::size_t i = 0; i < s.values.size(); ++i) {
                     e.values.push_back(s.values[i]);
                     e.tolerance.push_back(1.01 * std::fabs(s.values[i]) * epsilon(dtype) +
                                           static_cast<double>(k + 2) * 0x1p-24 * s.magnitudes[i] +
                                           smallest(dtype));
                   }
                 }
                 return std::vector<Expected>{e};
               }});
        }
  return cases;
}

}  // namespace musaic::checks
