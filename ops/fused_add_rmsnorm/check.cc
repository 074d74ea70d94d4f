#include "cli/check/check.h"

#include <cmath>

#include "ops/fused_add_rmsnorm/reference.h"

namespace musaic::checks {

std::vector<Case> fused_add_rmsnorm_cases() {
  std::vector<Case> cases;
  for (const bool gemma : {false, true})
    for (const DType dtype : kFloatTypes)
      for (const std::int64_t n : {1, 7, 64, 257, 1000, 4096, 8195}) {
        const std::int64_t rows = n > 2048 ? 2 : 5;
        cases.push_back(
            {gemma ? "gemma_fused_add_rmsnorm" : "fused_add_rmsnorm",
             std::to_string(rows) + "x" + std::to_string(n), dtype, Tier::kExact,
             "|y| (u + (12 + n/512) 2^-24)", [=](Call& call) {
               const int in = call.updated(dtype, {rows, n}), residual = call.updated(dtype, {rows, n}, 3.0),
                         weight = call.normal(dtype, {n});
               call.scalar(1e-6);
               Expected normed{in, {}, {}}, sum{residual, {}, {}};
               const double relative =
                   epsilon(dtype) + (12.0 + static_cast<double>(n) / 512.0) * epsilon(kFloat32);
               const auto x = call.rows(in, n), r = call.rows(residual, n);
               for (std::size_t row = 0; row < x.size(); ++row) {
                 const reference::FusedAddRmsnormRows y = reference::fused_add_rmsnorm(
                     x[row], r[row], call.values(weight), static_cast<float>(1e-6), gemma ? 1 : 0);
                 for (std::size_t i = 0; i < y.sum.size(); ++i) {
                   // The sum is rounded to float32 first, and its error is part of what is normalised.
                   normed.values.push_back(y.normed[i]);
                   normed.tolerance.push_back(std::fabs(y.normed[i]) * relative * 1.01 + smallest(dtype));
                   sum.values.push_back(y.sum[i]);
                   sum.tolerance.push_back(std::fabs(y.sum[i]) * (epsilon(dtype) + epsilon(kFloat32)) +
                                           smallest(dtype) / 2);
                 }
               }
               return std::vector<Expected>{normed, sum};
             }});
      }
  return cases;
}

}  // namespace musaic::checks
