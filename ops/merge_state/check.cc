#include "cli/check/check.h"

#include <cmath>
#include <limits>

#include "ops/merge_state/reference.h"

namespace musaic::checks {

std::vector<Case> merge_state_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t d : {1, 7, 64, 128, 257})
      cases.push_back(
          {"merge_state_v2", "4x3x" + std::to_string(d), dtype, Tier::kExact,
           "|y| u + 10 (|v_a| + |v_b|) 2^-24", [=](Call& call) {
             // One head in five has no key on one side.
             const auto log_sum = [&](std::int64_t i) {
               return i % 5 == 3 ? -std::numeric_limits<double>::infinity() : 4 * call.normal();
             };
             const int v = call.output(dtype, {4, 3, d}), s = call.output(kFloat32, {4, 3}),
                       v_a = call.normal(dtype, {4, 3, d}), s_a = call.input(kFloat32, {4, 3}, log_sum),
                       v_b = call.normal(dtype, {4, 3, d}),
                       s_b = call.input(kFloat32, {4, 3}, [&](std::int64_t) { return 4 * call.normal(); });
             Expected ev{v, {}, {}}, es{s, {}, {}};
             const auto a = call.rows(v_a, d), b = call.rows(v_b, d);
             const std::vector<double> sums_a = call.values(s_a), sums_b = call.values(s_b);
             for (std::size_t i = 0; i < a.size(); ++i) {
               const reference::MergedState m = reference::merge_state(a[i], sums_a[i], b[i], sums_b[i]);
               es.values.push_back(m.s);
               es.tolerance.push_back((std::fabs(m.s) + 8.0) * epsilon(kFloat32));
               for (std::size_t j = 0; j < m.v.size(); ++j) {
                 ev.values.push_back(m.v[j]);
                 ev.tolerance.push_back(
                     ((std::fabs(a[i][j]) + std::fabs(b[i][j])) * 10.0 * epsilon(kFloat32) +
                      std::fabs(m.v[j]) * epsilon(dtype)) *
                         1.01 +
                     smallest(dtype));
               }
             }
             return std::vector<Expected>{ev, es};
           }});
  return cases;
}

}  // namespace musaic::checks
