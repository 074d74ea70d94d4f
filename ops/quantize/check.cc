#include "cli/check/check.h"

#include <algorithm>
#include <cmath>

#include "ops/quantize/reference.h"

namespace musaic::checks {
namespace {

float largest_size(const std::vector<double>& x, double least) {
  double most = least;
  for (const double v : x) most = std::max(most, std::fabs(v));
  return static_cast<float>(most);
}

/// Codes are int8, which every device has.
void add_codes(Expected& codes, const std::vector<double>& x, float scale) {
  for (const double v : x) {
    const unsigned code = reference::encode_int8(reference::scaled(v, scale), false);
    codes.values.push_back(static_cast<double>(static_cast<signed char>(code)));
    codes.tolerance.push_back(0);
  }
}

}  // namespace

std::vector<Case> quantize_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t group : {7, 64, 128}) {
      const std::int64_t n = 4 * group;
      const std::string shape = "3x" + std::to_string(n);
      cases.push_back({"per_token_quant_8bit", shape, dtype, Tier::kExact, "0", [=](Call& call) {
                         const int q = call.output(kInt8, {3, n}), s = call.output(kFloat32, {3}),
                                   in = call.normal(dtype, {3, n});
                         Expected codes{q, {}, {}}, scales{s, {}, {}};
                         for (const auto& row : call.rows(in, n)) {
                           const float scale = largest_size(row, 0) / 127.0f;
                           scales.values.push_back(static_cast<double>(scale));
                           add_codes(codes, row, scale);
                         }
                         scales.tolerance = no_tolerance(scales.values);
                         return std::vector<Expected>{codes, scales};
                       }});
      cases.push_back({"per_tensor_quant_8bit", shape, dtype, Tier::kExact, "0", [=](Call& call) {
                         const int q = call.output(kInt8, {3, n}), s = call.output(kFloat32, {1}),
                                   in = call.normal(dtype, {3, n});
                         call.scalar(false);
                         const std::vector<double> x = call.values(in);
                         const float scale = largest_size(x, 0) / 127.0f;
                         Expected codes{q, {}, {}}, scales{s, {static_cast<double>(scale)}, {0}};
                         add_codes(codes, x, scale);
                         return std::vector<Expected>{codes, scales};
                       }});
      cases.push_back({"per_token_group_quant_8bit", shape, dtype, Tier::kExact, "0", [=](Call& call) {
                         const int q = call.output(kInt8, {3, n}), s = call.output(kFloat32, {3, 4}),
                                   in = call.normal(dtype, {3, n});
                         call.no_tensor();
                         call.scalar(group);
                         call.scalar(1e-10);
                         call.scalar(-128.0);
                         call.scalar(127.0);
                         for (int flag = 0; flag < 3; ++flag) call.scalar(false);
                         Expected codes{q, {}, {}}, scales{s, {}, {}};
                         for (const auto& row : call.rows(in, group)) {
                           const float scale = largest_size(row, 1e-10) / 127.0f;
                           scales.values.push_back(static_cast<double>(scale));
                           add_codes(codes, row, scale);
                         }
                         scales.tolerance = no_tolerance(scales.values);
                         return std::vector<Expected>{codes, scales};
                       }});
    }
  std::stable_sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.op < b.op; });
  return cases;
}

}  // namespace musaic::checks
