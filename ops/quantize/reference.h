// 8-bit numbers from their definition: a list of all of them, of which the nearest is taken.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace musaic::reference {

/// An 8-bit float: sign, exponent, mantissa. A format without infinities spends the top exponent on numbers; `fnuz` ones
/// have no -0 and one NaN, 80.
struct Format8 {
  int mantissa_bits, bias;
  bool has_infinities, fnuz;
};
inline constexpr Format8 kE4M3FN{3, 7, false, false}, kE4M3FNUZ{3, 8, false, true}, kE5M2{2, 15, true, false},
    kE5M2FNUZ{2, 16, false, true};

inline double decode8(const Format8& f, unsigned code) {
  const unsigned magnitude = code & 0x7f;
  const int top = (1 << (7 - f.mantissa_bits)) - 1, exponent = static_cast<int>(magnitude) >> f.mantissa_bits;
  const unsigned mantissa = magnitude & ((1u << f.mantissa_bits) - 1);
  if (f.fnuz && code == 0x80) return std::nan("");
  if (!f.fnuz && !f.has_infinities && magnitude == 0x7f) return std::nan("");
  if (f.has_infinities && exponent == top)
    return mantissa != 0 ? std::nan("") : code < 128 ? INFINITY : -INFINITY;
  const double fraction = std::ldexp(mantissa, -f.mantissa_bits);
  const double v =
      exponent == 0 ? std::ldexp(fraction, 1 - f.bias) : std::ldexp(1 + fraction, exponent - f.bias);
  return code < 128 ? v : -v;
}

/// The nearest number, of two equally near ones that with an even code; the largest for what lies above it.
inline unsigned encode8(const Format8& f, double v) {
  if (std::isnan(v)) return f.fnuz ? 0x80 : 0x7f;
  unsigned best = 0;
  double distance = INFINITY;
  for (unsigned c = 0; c < 128; ++c) {
    const double number = decode8(f, c);
    if (!std::isfinite(number)) continue;
    const double d = std::isinf(v) ? -number : std::fabs(std::fabs(v) - number);
    if (d < distance || (d == distance && c % 2 == 0)) {
      best = c;
      distance = d;
    }
  }
  return std::signbit(v) && !(f.fnuz && best == 0) ? best | 0x80 : best;
}

inline unsigned encode_int8(double v, bool truncate) {
  if (std::isnan(v)) return 0;
  const double clamped = std::clamp(v, -128.0, 127.0);
  return static_cast<unsigned>(static_cast<int>(truncate ? std::trunc(clamped) : std::nearbyint(clamped))) &
         0xff;
}

/// x / scale as the operators form it: the rounded inverse, then one rounding.
inline double scaled(double x, float scale) {
  if (scale == 0) return x * 0;
  // Powers of two keep the inverse finite and change nothing else.
  const double factor = scale < 0x1p-100f ? 0x1p100 : 1;
  const auto inverse = static_cast<float>(1 / (static_cast<double>(scale) * factor));
  return static_cast<double>(static_cast<float>(x * factor * static_cast<double>(inverse)));
}

}  // namespace musaic::reference
