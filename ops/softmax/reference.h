// The weights of a row and their quotients, in whole numbers; and the mathematical softmax in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace musaic::reference {

// A test's own wide integer; the library has none.
__extension__ typedef unsigned __int128 BigInteger;

/// The library's float32 e^x for x <= 0, written out again.
inline float exp(float x) {
  if (x < -104.0f) return 0.0f;
  const auto n =
      static_cast<float>(std::nearbyint(static_cast<double>(x) * static_cast<double>(1.44269504f)));
  const float r = std::fma(n, -1.42860677e-6f, std::fma(n, -0.693145752f, x));
  float q = 1.39421644e-3f;
  for (float c : {8.36377591e-3f, 4.16663624e-2f, 0.166665733f, 0.5f}) q = std::fma(q, r, c);
  return std::ldexp(std::fma(q, r * r, r) + 1.0f, static_cast<int>(n));
}

inline float rounded_to_float(double x) { return static_cast<float>(x); }

/// e^((x - max) / T) as the contract rounds it; the row has no NaN and no +infinity.
inline std::vector<float> relative_probabilities(const std::vector<double>& logits, float temperature) {
  float max = -std::numeric_limits<float>::infinity();
  for (double x : logits) max = std::max(max, rounded_to_float(x));
  const float inverse = 1.0f / std::min(temperature, 0x1p100f);
  std::vector<float> e(logits.size(), 0.0f);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const float d = rounded_to_float(logits[i]) - max;
    e[i] = exp(std::max(d * inverse, -28.0f));  // e^-28 < 2^-40: weight 0
  }
  return e;
}

/// floor(p 2^(40 - E)).
inline std::vector<std::uint64_t> weights(const std::vector<float>& p, int exponent) {
  std::vector<std::uint64_t> w(p.size());
  for (std::size_t i = 0; i < p.size(); ++i)
    w[i] = static_cast<std::uint64_t>(std::ldexp(static_cast<double>(p[i]), 40 - exponent));
  return w;
}

/// w / sum to nearest even with `digits` significant bits, no number below 2^smallest_exponent times an
/// integer.
inline double quotient(std::uint64_t w, std::uint64_t sum, int digits, int smallest_exponent) {
  if (w == 0) return 0.0;
  int exponent = std::max(smallest_exponent, -87);  // of the last place kept; w < 2^41, quotient >= 2^-62
  BigInteger whole, rest;
  for (;; ++exponent) {  // whole = floor(w / (sum 2^exponent)) until it has at most `digits` bits
    const BigInteger top = BigInteger{w} << -exponent;
    whole = top / sum;
    rest = top % sum;
    if ((whole >> digits) == 0) break;
  }
  if (2 * rest > sum || (2 * rest == sum && (whole & 1) != 0)) ++whole;
  return std::ldexp(static_cast<double>(whole), exponent);
}

/// float64, from the formula.
inline std::vector<double> softmax(const std::vector<double>& x, double temperature) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (double v : x) max = std::max(max, v);
  std::vector<double> p(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) sum += p[i] = std::exp((x[i] - max) / temperature);
  for (double& v : p) v /= sum;
  return p;
}

}  // namespace musaic::reference
