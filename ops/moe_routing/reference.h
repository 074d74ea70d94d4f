// Routing of one token in float64, from float64 logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace musaic::reference {

inline double logistic(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

/// Numbers of the `count` first of the order "value descending, then index ascending", NaNs last.
inline std::vector<std::int64_t> first_of_order(const std::vector<double>& value, std::int64_t count) {
  std::vector<std::int64_t> order(value.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    const double a = value[static_cast<std::size_t>(i)], b = value[static_cast<std::size_t>(j)];
    if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    return a > b;
  });
  order.resize(static_cast<std::size_t>(count));
  return order;
}

/// Groups whose two largest values have the largest sums.
inline std::vector<bool> kept_groups(const std::vector<double>& value, std::int64_t groups,
                                     std::int64_t kept) {
  const std::size_t size = value.size() / static_cast<std::size_t>(groups);
  std::vector<double> scores;
  for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g) {
    std::vector<double> v(value.begin() + static_cast<std::ptrdiff_t>(g * size),
                          value.begin() + static_cast<std::ptrdiff_t>((g + 1) * size));
    for (double& x : v)
      if (std::isnan(x)) x = -std::numeric_limits<double>::infinity();
    std::sort(v.begin(), v.end(), std::greater<>());
    scores.push_back(size == 1 ? v[0] : v[0] + v[1]);
  }
  std::vector<bool> keep(scores.size(), false);
  for (const std::int64_t g : first_of_order(scores, kept)) keep[static_cast<std::size_t>(g)] = true;
  return keep;
}

struct Routed {
  std::vector<std::int64_t> ids;
  std::vector<double> weights;
};

/// value: what experts are ordered by; score: what weights are made of.
inline Routed choose(const std::vector<double>& value, const std::vector<double>& score, std::int64_t k,
                     bool renormalize, std::int64_t groups = 1, std::int64_t kept = 1) {
  std::vector<std::int64_t> candidates;
  const std::vector<bool> keep = kept_groups(value, groups, kept);
  std::vector<double> open;
  const std::size_t size = value.size() / static_cast<std::size_t>(groups);
  for (std::size_t e = 0; e < value.size(); ++e)
    if (groups == 1 || keep[e / size]) {
      candidates.push_back(static_cast<std::int64_t>(e));
      open.push_back(value[e]);
    }
  Routed r;
  double sum = 0;
  const bool has_nan = std::any_of(value.begin(), value.end(), [](double v) { return std::isnan(v); });
  for (const std::int64_t i : first_of_order(open, k)) {
    const std::int64_t e = candidates[static_cast<std::size_t>(i)];
    r.ids.push_back(e);
    r.weights.push_back(has_nan ? 0 : score[static_cast<std::size_t>(e)]);
    sum += r.weights.back();
  }
  if (renormalize)
    for (double& w : r.weights) w = sum > 0 ? w / sum : 0;
  return r;
}

inline std::vector<double> softmax(const std::vector<double>& z) {
  const double max = *std::max_element(z.begin(), z.end());
  std::vector<double> p;
  double sum = 0;
  for (const double v : z) {
    p.push_back(v == max ? 1.0 : std::exp(v - max));
    sum += p.back();
  }
  for (double& v : p) v /= sum;
  return p;
}

}  // namespace musaic::reference
