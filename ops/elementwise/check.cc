#include "cli/check/check.h"

#include <algorithm>
#include <cmath>

#include "ops/elementwise/reference.h"

namespace musaic::checks {

std::vector<Case> elementwise_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t n : {1, 7, 1000, 4099}) {
      const std::string shape = "3x" + std::to_string(n);
      cases.push_back(
          {"gelu_quick", shape, dtype, Tier::kExact, "|y| (u + (4 + 1.702 |x|) 2^-24 )", [=](Call& call) {
             const int out = call.output(dtype, {3, n}), in = call.normal(dtype, {3, n}, 3.0);
             Expected e{out, {}, {}};
             for (const double x : call.values(in)) {
               const double y = reference::gelu_quick(x);
               e.values.push_back(y);
               e.tolerance.push_back(std::fabs(y) * (epsilon(dtype) + (8 + 4 * std::fabs(x)) * 0x1p-24) *
                                         1.01 +
                                     smallest(dtype));
             }
             return std::vector<Expected>{e};
           }});
      cases.push_back({"fused_mul_add", shape, dtype, Tier::kExact, "(|y| + |x bias|) u", [=](Call& call) {
                         const int out = call.output(dtype, {3, n}), in = call.normal(dtype, {3, n}),
                                   bias = call.normal(dtype, {3, n});
                         call.scalar(2.5);
                         Expected e{out, {}, {}};
                         const std::vector<double> x = call.values(in), b = call.values(bias);
                         for (std::size_t i = 0; i < x.size(); ++i) {
                           e.values.push_back(x[i] * 2.5 + b[i]);
                           e.tolerance.push_back(std::fabs(e.values[i]) * (epsilon(dtype) + 0x1p-24) * 1.01 +
                                                 smallest(dtype));
                         }
                         return std::vector<Expected>{e};
                       }});
    }
  std::stable_sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.op < b.op; });
  return cases;
}

}  // namespace musaic::checks
