#include "cli/check/check.h"

#include <algorithm>
#include <cmath>

#include "ops/softmax/reference.h"

namespace musaic::checks {

std::vector<Case> softmax_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t v : {1, 7, 257, 1000, 8195})
      cases.push_back({"softmax", "3x" + std::to_string(v), dtype, Tier::kExact,
                       "p (u + (10 + 6 max|x - y|) 2^-24 + V 2^-40) + 2^-40", [=](Call& call) {
                         const int out = call.output(dtype, {3, v}), in = call.normal(dtype, {3, v}, 3.0);
                         call.no_tensor();
                         call.scalar(0.75);
                         Expected e{out, {}, {}};
                         for (const auto& row : call.rows(in, v)) {
                           // (x - max) / T has three roundings, which e^x turns into 3 |(x - max) / T| u32 of its result, in
                           // the numerator and the denominator; entries below e^-28 are 0.
                           const auto [low, high] = std::minmax_element(row.begin(), row.end());
                           const double range = std::min((*high - *low) / 0.75, 28.0);
                           const double relative = epsilon(dtype) + (10.0 + 6.0 * range) * epsilon(kFloat32) +
                                                   static_cast<double>(v) * 0x1p-40;
                           for (const double p : reference::softmax(row, 0.75)) {
                             e.values.push_back(p);
                             e.tolerance.push_back(p * relative * 1.01 + 0x1p-40 + smallest(dtype));
                           }
                         }
                         return std::vector<Expected>{e};
                       }});
  return cases;
}

}  // namespace musaic::checks
