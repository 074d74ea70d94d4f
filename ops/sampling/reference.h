// Sampling by sorting the row, in whole numbers of any size; and the filters in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "ops/softmax/reference.h"

namespace musaic::reference {

struct Filters {
  std::int64_t top_k = 0;
  float top_p = 1.0f, min_p = 0.0f;
  bool top_k_first = false;
};

/// Philox-4x32-10 on a counter of two 64-bit halves; round by round as published.
struct PhiloxOutput {
  std::uint64_t low, high;
};
inline PhiloxOutput philox(std::uint64_t counter_low, std::uint64_t counter_high, std::uint64_t key) {
  std::uint32_t c[4] = {
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  std::uint32_t k[2] = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = 0xd2511f53ull * c[0], b = 0xcd9e8d57ull * c[2];
    const auto a_high = static_cast<std::uint32_t>(a >> 32), b_high = static_cast<std::uint32_t>(b >> 32);
    const std::uint32_t next[4] = {b_high ^ c[1] ^ k[0], static_cast<std::uint32_t>(b), a_high ^ c[3] ^ k[1],
                                   static_cast<std::uint32_t>(a)};
    std::copy(next, next + 4, c);
    k[0] += 0x9e3779b9u;
    k[1] += 0xbb67ae85u;
  }
  return {c[0] | std::uint64_t{c[1]} << 32, c[2] | std::uint64_t{c[3]} << 32};
}

inline std::vector<std::uint64_t> random_numbers(std::uint64_t seed, std::uint64_t offset,
                                                 std::uint64_t subsequence) {
  std::vector<std::uint64_t> r;
  for (std::uint64_t block = 0; block < 5; ++block) {
    const PhiloxOutput o = philox(8 * offset + block, subsequence, seed);
    r.push_back(o.low);
    r.push_back(o.high);
  }
  return r;
}

/// E of a row of probabilities.
inline int weight_exponent(double max) {
  if (max >= 0x1p-24 && max <= 1.0) return 0;
  int e = -192;
  while (max > std::ldexp(1.0, e)) e += 24;
  return e;
}

/// Indices by value descending, then index ascending.
inline std::vector<std::int64_t> total_order(const std::vector<double>& values) {
  std::vector<std::int64_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const double x = values[static_cast<std::size_t>(a)], y = values[static_cast<std::size_t>(b)];
    return x > y || (x == y && a < b);
  });
  return order;
}

/// Which entries the filters keep. `p` are relative probabilities, of which min-p is a share of the largest.
inline std::vector<bool> support(const std::vector<double>& values, const std::vector<float>& p,
                                 const std::vector<std::uint64_t>& w, const Filters& f) {
  const std::vector<std::int64_t> order = total_order(values);
  const auto size = static_cast<std::int64_t>(w.size());
  std::vector<bool> kept(w.size(), false);
  const std::int64_t first_k = f.top_k > 0 && f.top_k < size ? f.top_k : size;
  BigInteger mass = 0;
  for (std::int64_t i = 0; i < size; ++i)
    if (i < first_k || !f.top_k_first)
      mass += w[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
  BigInteger threshold = mass;
  if (f.top_p <= 0.0f) {
    threshold = 1;
  } else if (f.top_p < 1.0f) {
    int exponent;
    const float fraction = std::frexp(f.top_p, &exponent);
    const auto m = static_cast<std::uint64_t>(std::ldexp(fraction, 24));  // top_p = m 2^(exponent - 24)
    const int shift = 24 - exponent;
    const BigInteger product = mass * m;  // below 2^86
    threshold = shift > 100 ? 1 : (product + ((BigInteger{1} << shift) - 1)) >> shift;
    if (threshold == 0) threshold = 1;
  }
  const float share = std::min(f.min_p, 1.0f);
  const float least = share > 0.0f ? share * *std::max_element(p.begin(), p.end()) : 0.0f;
  BigInteger sum = 0;
  for (std::int64_t i = 0; i < first_k; ++i) {
    const auto x = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
    if (sum < threshold && p[x] >= least && w[x] > 0) kept[x] = true;
    sum += w[x];
  }
  return kept;
}

/// The first index whose inclusive prefix of kept weights exceeds the high half of r * (kept mass).
inline std::int64_t pick(const std::vector<std::uint64_t>& w, const std::vector<bool>& kept,
                         std::uint64_t r) {
  BigInteger mass = 0, sum = 0;
  for (std::size_t i = 0; i < w.size(); ++i)
    if (kept[i]) mass += w[i];
  const BigInteger point = mass * r >> 64;
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (kept[i]) sum += w[i];
    if (sum > point) return static_cast<std::int64_t>(i);
  }
  return -1;
}

inline std::int64_t sample(const std::vector<double>& values, const std::vector<float>& p, int exponent,
                           const Filters& f, const std::vector<std::uint64_t>& r) {
  const std::vector<std::uint64_t> w = weights(p, exponent);
  const std::vector<bool> kept = support(values, p, w, f);
  if (f.top_k <= 0 || f.top_k >= static_cast<std::int64_t>(w.size()))
    for (int j = 0; j < 8; ++j) {
      const std::int64_t x = pick(w, std::vector<bool>(w.size(), true), r[static_cast<std::size_t>(j)]);
      if (kept[static_cast<std::size_t>(x)]) return x;
    }
  return pick(w, kept, r[f.top_k <= 0 || f.top_k >= static_cast<std::int64_t>(w.size()) ? 8 : 0]);
}

inline std::int64_t sample_probs(const std::vector<double>& probs, const Filters& f,
                                 const std::vector<std::uint64_t>& r) {
  const std::vector<float> p(probs.begin(), probs.end());
  return sample(probs, p, weight_exponent(*std::max_element(probs.begin(), probs.end())), f, r);
}

inline std::int64_t sample_logits(const std::vector<double>& logits, float temperature, const Filters& f,
                                  const std::vector<std::uint64_t>& r) {
  if (temperature < 0x1p-126f) return total_order(logits)[0];
  return sample(logits, relative_probabilities(logits, temperature), 0, f, r);
}

/// The filters on exact probabilities in float64: 1 kept, 0 cut, -1 too close to call: the mass before the
/// entry within `mass_tolerance` (a share of the mass) of top-p's threshold, the probability within
/// `share_tolerance` (a share of the largest) of min-p's, or a probability below mass_tolerance.
inline std::vector<int> support_float64(const std::vector<double>& values, const std::vector<double>& p,
                                        const Filters& f, double mass_tolerance, double share_tolerance) {
  const std::vector<std::int64_t> order = total_order(values);
  const auto size = static_cast<std::int64_t>(p.size());
  const std::int64_t first_k = f.top_k > 0 && f.top_k < size ? f.top_k : size;
  double mass = 0, sum = 0;
  for (std::int64_t i = 0; i < (f.top_k_first ? first_k : size); ++i)
    mass += p[static_cast<std::size_t>(order[static_cast<std::size_t>(i)])];
  const double max = p[static_cast<std::size_t>(order[0])];
  const double top_p = static_cast<double>(f.top_p) * mass;
  const double min_p = std::min(static_cast<double>(f.min_p), 1.0) * max;
  std::vector<int> kept(p.size(), 0);
  for (std::int64_t i = 0; i < first_k; ++i) {
    const auto x = static_cast<std::size_t>(order[static_cast<std::size_t>(i)]);
    const bool has_top_p = f.top_p < 1.0f && i > 0, has_min_p = f.min_p > 0.0f;
    const bool near = (has_top_p && std::fabs(sum - top_p) <= mass_tolerance * mass) ||
                      (has_min_p && std::fabs(p[x] - min_p) <= share_tolerance * max) ||
                      p[x] <= mass_tolerance * mass;
    kept[x] = near ? -1 : (!has_top_p || sum < top_p) && (!has_min_p || p[x] >= min_p) ? 1 : 0;
    sum += p[x];
  }
  return kept;
}

}  // namespace musaic::reference
