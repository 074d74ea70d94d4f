#include "cli/check/check.h"

#include "ops/argmax/reference.h"

namespace musaic::checks {

std::vector<Case> argmax_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t v : {1, 7, 257, 1000, 8195})
      cases.push_back({"argmax", "4x" + std::to_string(v), dtype, Tier::kExact, "0", [=](Call& call) {
                         // Half numbers repeat, so the first of equals is asked for.
                         const int out = call.output(kInt64, {4}),
                                   in = call.input(dtype, {4, v}, [&](std::int64_t) {
                                     return static_cast<double>(call.uniform_int(-99, 99));
                                   });
                         Expected e{out, {}, {}};
                         for (const auto& row : call.rows(in, v))
                           e.values.push_back(static_cast<double>(reference::argmax(row)));
                         e.tolerance = no_tolerance(e.values);
                         return std::vector<Expected>{e};
                       }});
  return cases;
}

}  // namespace musaic::checks
