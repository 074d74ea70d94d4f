#include "testing/number.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

namespace musaic::testing {
namespace {

struct FloatFormat {
  int mantissa_bits, bias, exponent_bits;
  bool infinities;  // false: the e4m3fn kind, whose top exponent holds numbers
};

std::optional<FloatFormat> format_of(DType t) {
  if (t == kFloat16) return FloatFormat{10, 15, 5, true};
  if (t == kBFloat16) return FloatFormat{7, 127, 8, true};
  if (t == kFloat8E5M2) return FloatFormat{2, 15, 5, true};
  if (t == kFloat8E4M3FN) return FloatFormat{3, 7, 4, false};
  return std::nullopt;
}

double decode(std::uint32_t bits, const FloatFormat& f) {
  const int top = (1 << f.exponent_bits) - 1;
  const int exponent = static_cast<int>(bits >> f.mantissa_bits) & top;
  const std::uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
  const double sign = (bits >> (f.mantissa_bits + f.exponent_bits)) & 1 ? -1.0 : 1.0;
  if (exponent == top && f.infinities)
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  if (exponent == top && mantissa == (1u << f.mantissa_bits) - 1)
    return std::numeric_limits<double>::quiet_NaN();
  const double fraction = std::ldexp(mantissa, -f.mantissa_bits);
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - f.bias)
                       : sign * std::ldexp(1.0 + fraction, exponent - f.bias);
}

std::uint32_t encode(double v, const FloatFormat& f) {
  const std::uint32_t sign_bit = std::signbit(v) ? 1u << (f.mantissa_bits + f.exponent_bits) : 0u;
  const std::uint32_t top = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
  if (std::isnan(v))
    return f.infinities ? top | (1u << (f.mantissa_bits - 1)) : top | ((1u << f.mantissa_bits) - 1);
  const double a = std::fabs(v);
  const double largest = decode(f.infinities ? top - 1 : (top | ((1u << f.mantissa_bits) - 1)) - 1, f);
  int exponent = 0;
  std::frexp(a, &exponent);  // a in [2^(exponent-1), 2^exponent)
  const int quantum = std::max(exponent - 1, 1 - f.bias) - f.mantissa_bits;
  const double rounded =
      a == 0 || std::isinf(a) ? a : std::ldexp(std::nearbyint(std::ldexp(a, -quantum)), quantum);
  if (rounded > largest) return sign_bit | (f.infinities ? top : (top | ((1u << f.mantissa_bits) - 1)) - 1);
  if (rounded == 0) return sign_bit;
  std::frexp(rounded, &exponent);
  const int e = std::max(exponent - 1, 1 - f.bias);
  const auto mantissa = static_cast<std::uint32_t>(std::ldexp(rounded, f.mantissa_bits - e));
  const std::uint32_t hidden = 1u << f.mantissa_bits;
  if (mantissa < hidden) return sign_bit | mantissa;
  return sign_bit | (static_cast<std::uint32_t>(e + f.bias) << f.mantissa_bits) | (mantissa - hidden);
}

template <class T>
T read(const void* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void write(void* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

}  // namespace

double to_double(const void* p, DType t) {
  if (t == kFloat32) return static_cast<double>(read<float>(p));
  if (t == kFloat64) return read<double>(p);
  if (t == kInt64) return static_cast<double>(read<std::int64_t>(p));
  if (t == kInt32) return read<std::int32_t>(p);
  if (t == kInt8) return read<std::int8_t>(p);
  if (t == kUInt8 || t == kBool) return read<std::uint8_t>(p);
  const auto f = format_of(t);
  if (!f) throw Error("testing", "dtype", to_string(t), "one that the tests can read");
  return decode(size_bytes(t) == 2 ? read<std::uint16_t>(p) : read<std::uint8_t>(p), *f);
}

void from_double(void* p, DType t, double v) {
  if (t == kFloat32) return write(p, static_cast<float>(v));
  if (t == kFloat64) return write(p, v);
  if (t == kInt64) return write(p, static_cast<std::int64_t>(v));
  if (t == kInt32) return write(p, static_cast<std::int32_t>(v));
  if (t == kInt8) return write(p, static_cast<std::int8_t>(v));
  if (t == kUInt8 || t == kBool) return write(p, static_cast<std::uint8_t>(v));
  const auto f = format_of(t);
  if (!f) throw Error("testing", "dtype", to_string(t), "one that the tests can write");
  const std::uint32_t bits = encode(v, *f);
  if (size_bytes(t) == 2)
    write(p, static_cast<std::uint16_t>(bits));
  else
    write(p, static_cast<std::uint8_t>(bits));
}

double round_to(DType t, double v) {
  unsigned char element[8];
  from_double(element, t, v);
  return to_double(element, t);
}

double epsilon(DType t) {
  if (t == kFloat64) return 0x1p-53;
  if (t == kFloat32) return 0x1p-24;
  return std::ldexp(1.0, -format_of(t)->mantissa_bits - 1);
}

double smallest(DType t) {
  if (t == kFloat64) return std::numeric_limits<double>::denorm_min();
  if (t == kFloat32) return 0x1p-149;
  return std::ldexp(1.0, 1 - format_of(t)->bias - format_of(t)->mantissa_bits);
}

}  // namespace musaic::testing
