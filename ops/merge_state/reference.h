// float64, from the formula.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace musaic::reference {

struct MergedState {
  std::vector<double> v;
  double s;
};

/// One token and head.
inline MergedState merge_state(const std::vector<double>& v_a, double s_a, const std::vector<double>& v_b,
                               double s_b) {
  const double none = -std::numeric_limits<double>::infinity();
  if (s_a == -none) s_a = none;
  if (s_b == -none) s_b = none;
  if (s_a == none && s_b == none) return {std::vector<double>(v_a.size(), 0.0), none};
  if (s_a == none) return {v_b, s_b};
  if (s_b == none) return {v_a, s_a};
  const double m = std::max(s_a, s_b), w_a = std::exp(s_a - m), w_b = std::exp(s_b - m);
  MergedState r{{}, m + std::log(w_a + w_b)};
  for (std::size_t i = 0; i < v_a.size(); ++i) r.v.push_back((v_a[i] * w_a + v_b[i] * w_b) / (w_a + w_b));
  return r;
}

}  // namespace musaic::reference
