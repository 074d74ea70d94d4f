#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

namespace musaic::reference {

struct Sum {
  std::vector<double> values, magnitudes;  // magnitudes: sums of absolute terms, which rounding errors follow
};

/// Of one token: x [topk, hidden_size]; weights of the slots, or none.
inline Sum moe_sum(const std::vector<double>& x, std::size_t topk, const std::vector<double>& weights,
                   double factor) {
  const std::size_t hidden = topk == 0 ? 0 : x.size() / topk;
  Sum s{std::vector<double>(hidden, 0.0), std::vector<double>(hidden, 0.0)};
  for (std::size_t j = 0; j < topk; ++j)
    for (std::size_t i = 0; i < hidden; ++i) {
      const double term = factor * (weights.empty() ? 1.0 : weights[j]) * x[j * hidden + i];
      s.values[i] += term;
      s.magnitudes[i] += std::fabs(term);
    }
  return s;
}

}  // namespace musaic::reference
