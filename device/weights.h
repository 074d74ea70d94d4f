// A probability as an integer, so that sums of any order and the tokens drawn from them are exact: the weight
// of a probability p is floor(p * 2^(40 - E)), with one E for a row. Sums of up to 2^22 weights fit 62 bits.
#pragma once

#include "device/math.h"
#include "device/wide.h"

namespace musaic::MUSAIC_TARGET {

inline constexpr float kSmallestTemperature = 1.17549435e-38f;  // 2^-126; below it a row takes its argmax
inline constexpr float kLargestTemperature = 1.26765060e+30f;   // 2^100

MUSAIC_FN float inverse_temperature(float t) {
  return div(1.0f, t > kLargestTemperature ? kLargestTemperature : t);
}

/// e^((x - max) / T): at most 1, and 1 at the maximum. x is no NaN; max is finite. Exponents below -28 are
/// taken as -28, since e^-28 < 2^-40 and all of those have weight 0.
template <class V>
MUSAIC_FN V relative_probability(V x, float max, float inverse_temperature) {
  const V t = (x - all<V>(max)) * all<V>(inverse_temperature);
  return exp_near_zero(larger(t, all<V>(-28.0f)));
}

/// E of a row: 0 while its maximum is in [2^-24, 1], else the smallest multiple of 24 with maximum <= 2^E.
MUSAIC_FN int weight_exponent(float max) {
  if (max >= 5.96046448e-8f && max <= 1.0f) return 0;
  const bool subnormal = max < kSmallestTemperature;
  const std::uint32_t bits = as_bits(subnormal ? max * 16777216.0f : max);
  const int e = static_cast<int>(bits >> 23) - (subnormal ? 151 : 127) + ((bits & 0x7fffffu) != 0 ? 1 : 0);
  return e > 0 ? (e + 23) / 24 * 24 : -(-e / 24 * 24);
}

/// Splits a weight into two non-negative ints, high * 2^20 + low, high <= 2^20 and low < 2^20, whose sums
/// over up to 1024 entries fit an int. Every step is exact where it can change the result.
struct WeightScale {
  float a, b;  // their product is 2^(20 - E); two, since it may exceed a float's range

  template <class V>
  MUSAIC_FN void split(V p, typename IntOf<V>::Signed& high, typename IntOf<V>::Signed& low) const {
    const V scaled = (p * all<V>(a)) * all<V>(b);
    high = to_int(scaled);
    low = to_int((scaled - to_float(high)) * all<V>(1048576.0f));
  }
  MUSAIC_FN std::uint64_t weight(float p) const {
    std::int32_t high, low;
    split(p, high, low);
    return (static_cast<std::uint64_t>(high) << 20) + static_cast<std::uint64_t>(low);
  }
};

MUSAIC_FN WeightScale weight_scale(int exponent) {
  const int n = 20 - exponent, half = n >> 1;
  return {from_bits(static_cast<std::uint32_t>(half + 127) << 23),
          from_bits(static_cast<std::uint32_t>(n - half + 127) << 23)};
}

/// A mass * 2^-40, rounded to nearest even: by integers, since not every GPU says how its conversions round.
MUSAIC_FN float mass_as_float(std::uint64_t mass) {
  if (mass == 0) return 0.0f;
  int shift = 0;
  std::uint64_t m = mass;
  while (m >= (std::uint64_t{1} << 24)) {
    m >>= 1;
    ++shift;
  }
  if (shift > 0) {
    const std::uint64_t rest = mass & ((std::uint64_t{1} << shift) - 1),
                        half = std::uint64_t{1} << (shift - 1);
    if (rest > half || (rest == half && (m & 1) != 0)) ++m;  // 2^24 is exact too
  }
  return to_float(static_cast<std::int32_t>(m)) *
         from_bits(static_cast<std::uint32_t>(shift - 40 + 127) << 23);
}

/// The sum of split weights: eight lanes of both parts.
MUSAIC_FN std::uint64_t sum_of_parts(I32x8 high, I32x8 low) {
  std::uint64_t h = 0, l = 0;
  for (int i = 0; i < 8; ++i) {
    h += static_cast<std::uint32_t>(high[i]);
    l += static_cast<std::uint32_t>(low[i]);
  }
  return (h << 20) + l;
}

/// A key whose unsigned order is the order of the floats; -0 has the place of +0. No NaNs.
MUSAIC_FN std::uint32_t order_key(float x) {
  const std::uint32_t u = as_bits(x + 0.0f);
  return (u & 0x80000000u) != 0 ? ~u : u | 0x80000000u;
}
MUSAIC_FN float value_of_key(std::uint32_t key) {
  return from_bits((key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key);
}

}  // namespace musaic::MUSAIC_TARGET
