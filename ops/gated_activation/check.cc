#include "cli/check/check.h"

#include <algorithm>
#include <cmath>

#include "ops/gated_activation/reference.h"

namespace musaic::checks {
namespace {

using reference::Activation;

struct Form {
  const char* op;
  Activation activation;
};
constexpr Form kForms[] = {{"silu_and_mul", Activation::kSilu},
                           {"gelu_and_mul", Activation::kGelu},
                           {"gelu_tanh_and_mul", Activation::kGeluTanh}};

/// The contract's bounds in units of 2^-24, two an ulp.
double contract_bound(Activation kind, double gate) {
  if (kind == Activation::kSilu) return 8;
  if (kind == Activation::kGelu) return 14;
  return gate >= 0 ? 8.0 : 5.0 + 3.0 * std::fabs(reference::gelu_tanh_slope(std::max(gate, -12.0)));
}

}  // namespace

std::vector<Case> gated_activation_cases() {
  std::vector<Case> cases;
  for (const Form& form : kForms)
    for (const DType dtype : kFloatTypes)
      for (const std::int64_t d : {1, 7, 64, 257, 1000, 4103})
        cases.push_back({form.op, "3x" + std::to_string(d), dtype, Tier::kExact,
                         "|y| (2 u + (bound of the contract + 1) 2^-24)", [form, dtype, d](Call& call) {
                           const int out = call.output(dtype, {3, d}),
                                     in = call.normal(dtype, {3, 2 * d}, 3.0);
                           Expected e{out, {}, {}};
                           for (const auto& row : call.rows(in, 2 * d))
                             for (std::size_t i = 0; i < row.size() / 2; ++i) {
                               const double gate = row[i], up = row[row.size() / 2 + i];
                               const double y = reference::activation(form.activation, gate) * up;
                               e.values.push_back(y);
                               // Twice u: the float32 result may lie across the middle of two neighbours.
                               e.tolerance.push_back(
                                   std::fabs(y) *
                                       (2 * epsilon(dtype) +
                                        (contract_bound(form.activation, gate) + 1.0) * epsilon(kFloat32)) *
                                       1.01 +
                                   0x1p-142 * std::fabs(up) + smallest(dtype));
                             }
                           return std::vector<Expected>{e};
                         }});
  return cases;
}

}  // namespace musaic::checks
