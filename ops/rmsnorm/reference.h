// float64, from the formula.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace musaic::reference {

/// One row; an empty weight means ones.
inline std::vector<double> rmsnorm(const std::vector<double>& x, const std::vector<double>& weight,
                                   double eps, double weight_offset) {
  double sum = 0;
  for (double v : x) sum += v * v;
  const double r = 1.0 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  std::vector<double> y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = x[i] * r * (weight.empty() ? 1.0 : weight_offset + weight[i]);
  return y;
}

}  // namespace musaic::reference
