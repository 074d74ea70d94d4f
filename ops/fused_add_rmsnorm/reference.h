// float64, from the formula.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace musaic::reference {

struct FusedAddRmsnormRows {
  std::vector<double> sum, normed;
};

/// One row; an empty weight means ones.
inline FusedAddRmsnormRows fused_add_rmsnorm(const std::vector<double>& input,
                                             const std::vector<double>& residual,
                                             const std::vector<double>& weight, double eps,
                                             double weight_offset) {
  FusedAddRmsnormRows y;
  double square = 0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    y.sum.push_back(input[i] + residual[i]);
    square += y.sum[i] * y.sum[i];
  }
  const double r = 1.0 / std::sqrt(square / static_cast<double>(input.size()) + eps);
  for (std::size_t i = 0; i < input.size(); ++i)
    y.normed.push_back(y.sum[i] * r * (weight.empty() ? 1.0 : weight_offset + weight[i]));
  return y;
}

}  // namespace musaic::reference
