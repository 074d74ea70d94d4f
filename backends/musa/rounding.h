// Correctly rounded quotient and root from an approximate one: an exact fma residual says on which side of
// the true value a candidate lies. They use fma, as_bits and from_bits of primitives.h and hold for every
// seed within 4 ulp.
#pragma once

#include <cstdint>

namespace musaic::MUSAIC_TARGET {

/// x with its exponent field changed by k; x and the result are normal.
MUSAIC_FN float scaled(float x, std::int32_t k) {
  return from_bits(as_bits(x) + (static_cast<std::uint32_t>(k) << 23));
}

/// The float above or below a positive normal x.
MUSAIC_FN float next_up(float x) { return from_bits(as_bits(x) + 1u); }
MUSAIC_FN float next_down(float x) { return from_bits(as_bits(x) - 1u); }

/// A positive finite number as m 2^exponent with m in [1, 2).
MUSAIC_FN float mantissa_of(std::uint32_t magnitude, std::int32_t* exponent) {
  std::int32_t shift = 0;
  if (magnitude < 0x00800000u) {  // subnormal: the integer as a float is normal, and exact
    magnitude = as_bits(static_cast<float>(magnitude));
    shift = -149;
    *exponent = static_cast<std::int32_t>(magnitude >> 23) - 127 + shift;
  } else {
    *exponent = static_cast<std::int32_t>(magnitude >> 23) - 127;
  }
  return from_bits((magnitude & 0x007fffffu) | 0x3f800000u);
}

/// sqrt(a), rounded to nearest even. \param seed  seed(m) is sqrt(m) within 4 ulp for m in [1, 4)
template <class Seed>
MUSAIC_FN float rounded_sqrt(float a, Seed seed) {
  const std::uint32_t bits = as_bits(a);
  if (bits == 0u || bits == 0x80000000u || bits == 0x7f800000u) return a;
  if (bits > 0x7f800000u) return from_bits(0x7fc00000u);  // NaN or below 0
  std::int32_t exponent;
  float m = mantissa_of(bits, &exponent);
  if ((exponent & 1) != 0) {
    m = m + m;
    exponent -= 1;
  }
  float y = seed(m);  // in [1, 2), whose unit of the last place is 2^-23
#pragma unroll
  for (int i = 0; i < 5; ++i) {
    // sqrt(m) > y + u/2 iff m - y^2 > y u, since m, y^2 and y u are multiples of u^2; likewise below.
    const float rest = fma(-y, y, m);
    const float above = next_up(y) - y, below = y - next_down(y);
    if (rest > y * above)
      y = next_up(y);
    else if (!(rest > -(y * below)))
      y = next_down(y);
  }
  return scaled(y, exponent / 2);
}

/// a / b, rounded to nearest even. \param seed  seed(x, y) is x / y within 4 ulp for x and y in [1, 2)
template <class Seed>
MUSAIC_FN float rounded_div(float a, float b, Seed seed) {
  const std::uint32_t sign = (as_bits(a) ^ as_bits(b)) & 0x80000000u;
  const std::uint32_t x = as_bits(a) & 0x7fffffffu, y = as_bits(b) & 0x7fffffffu;
  const bool nan =
      x > 0x7f800000u || y > 0x7f800000u || (x == 0x7f800000u && y == 0x7f800000u) || (x | y) == 0u;
  if (nan) return from_bits(0x7fc00000u);
  if (x == 0x7f800000u || y == 0u) return from_bits(sign | 0x7f800000u);
  if (y == 0x7f800000u || x == 0u) return from_bits(sign);
  std::int32_t of_a, of_b;
  const float n = mantissa_of(x, &of_a), d = mantissa_of(y, &of_b);
  float q = seed(n, d);  // in (1/2, 2)
  float rest = fma(-q, d, n);
#pragma unroll
  for (int i = 0; i < 5; ++i) {
    // n / d > q + u/2 iff n - q d > d u/2; a quotient of two floats never lies half-way.
    const float above = next_up(q) - q, below = q - next_down(q);
    if (rest > d * (0.5f * above))
      q = next_up(q);
    else if (rest < -(d * (0.5f * below)))
      q = next_down(q);
    rest = fma(-q, d, n);
  }
  const std::int32_t exponent = static_cast<std::int32_t>(as_bits(q) >> 23) + of_a - of_b;  // biased
  if (exponent >= 255) return from_bits(sign | 0x7f800000u);
  if (exponent > 0)
    return from_bits(sign | (as_bits(q) & 0x007fffffu) | static_cast<std::uint32_t>(exponent) << 23);
  // Subnormal: the mantissa with two more bits, of which the last says that the quotient is not exact, rounds
  // once.
  const std::uint32_t quarters = ((as_bits(q) & 0x007fffffu) | 0x00800000u) << 2;
  const std::uint32_t exact = rest > 0.0f ? quarters + 1u : rest < 0.0f ? quarters - 1u : quarters;
  const std::int32_t shift = 3 - exponent < 31 ? 3 - exponent : 31;
  const std::uint32_t kept = exact >> shift, cut = exact & ((1u << shift) - 1u), half = 1u << (shift - 1);
  return from_bits(sign | (kept + (cut > half || (cut == half && (kept & 1u) != 0u) ? 1u : 0u)));
}

}  // namespace musaic::MUSAIC_TARGET
