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

struct AttentionError {
  std::vector<double> out;
  double lse;
};

/// How far a float32 computation may be from it, before the result's own rounding.
///
/// With u the unit roundoff of float32: a score has d products in lanes of d / 8 and three levels, so its error is below
/// (d / 8 + 5) u scale sum |q k|, plus 6 u |x| for tanh. A weight has that, plus u |x - m| from the subtraction (over
/// the merges these add up to |x - lse|), plus 2.2 u from each exp. The sums of a split add 256 u, those of a merge 5 u.
/// Numerator and denominator each carry the weights' errors. Then one division.
inline AttentionError attention_error(const Attention& a, const std::vector<const double*>& values,
                                      std::size_t k_head_dim, bool has_soft_cap) {
  constexpr double u = 0x1p-24;
  const double keys = static_cast<double>(values.size()), splits = std::floor(keys / 256) + 2,
               sums = (std::min(keys, 256.0) + 5 * splits) * u;
  double weight_error = 0;
  std::vector<double> value_error(a.out.size(), 0.0);
  for (std::size_t j = 0; j < values.size(); ++j) {
    const double relative =
        ((static_cast<double>(k_head_dim) / 8 + 5) * a.products[j] +
         (has_soft_cap ? 6 * std::fabs(a.scores[j]) : 0) + std::fabs(a.scores[j] - a.lse) + 2.2 * splits) *
        u;
    weight_error += a.weights[j] * relative;
    for (std::size_t d = 0; d < value_error.size(); ++d)
      value_error[d] += a.weights[j] * (relative + sums) * std::fabs(values[j][d]);
  }
  AttentionError e{{}, 1.05 * (weight_error + sums + 6 * u * (1 + std::fabs(a.lse) * 2))};
  for (std::size_t d = 0; d < value_error.size(); ++d)
    e.out.push_back(1.05 * (value_error[d] + std::fabs(a.out[d]) * (weight_error + sums + u)));
  return e;
}

}  // namespace musaic::reference
