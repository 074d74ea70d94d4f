// float64, from the formula: plain softmax attention of one query over the keys that it sees.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace musaic::reference {

struct Attention {
  std::vector<double> out;
  double lse = -std::numeric_limits<double>::infinity();
  /// What a bound on the error of a float32 computation is made of.
  std::vector<double> scores, products, weights;  // per key: x_j, scale * sum |q_d k_d|, e^(x_j - lse)
};

/// \param keys    query.size() numbers each
/// \param values  v_head_dim numbers each
inline Attention attention(const std::vector<double>& query, const std::vector<const double*>& keys,
                           const std::vector<const double*>& values, double scale, double soft_cap,
                           std::size_t v_head_dim) {
  Attention a;
  a.out.assign(v_head_dim, 0.0);
  if (keys.empty()) return a;
  for (const double* key : keys) {
    double x = 0, magnitude = 0;
    for (std::size_t d = 0; d < query.size(); ++d) {
      x += query[d] * key[d];
      magnitude += std::fabs(query[d] * key[d]);
    }
    x *= scale;
    a.products.push_back(std::fabs(scale) * magnitude);
    a.scores.push_back(soft_cap > 0 ? soft_cap * std::tanh(x / soft_cap) : x);
  }
  const double m = *std::max_element(a.scores.begin(), a.scores.end());
  double sum = 0;
  for (double x : a.scores) sum += std::exp(x - m);
  a.lse = m + std::log(sum);
  for (std::size_t j = 0; j < keys.size(); ++j) {
    a.weights.push_back(std::exp(a.scores[j] - m) / sum);
    for (std::size_t d = 0; d < v_head_dim; ++d) a.out[d] += a.weights[j] * values[j][d];
  }
  return a;
}

}  // namespace musaic::reference
