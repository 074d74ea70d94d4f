// Narrowing to eight bits: the four 8-bit floats and int8. Rounds to nearest even and saturates: what is above the
// largest number, infinity too, becomes it.
#pragma once

#include "device/vec.h"

namespace musaic {

/// An 8-bit float as a kernel is told of it at run time.
struct Float8 {
  std::uint32_t mantissa_bits, nan_code;
  std::uint32_t rebias;   // what a float32's exponent and mantissa, cut to mantissa_bits, are too large by
  float smallest_normal;  // below it the spacing stays
  float magic;            // whose last place is that spacing
  float largest;
  bool has_negative_zero;
};

namespace MUSAIC_TARGET {

MUSAIC_FN Float8 float8_e4m3fn() { return {3, 0x7f, (127 - 7) << 3, 0.015625f, 16384.0f, 448.0f, true}; }
MUSAIC_FN Float8 float8_e4m3fnuz() { return {3, 0x80, (127 - 8) << 3, 0.0078125f, 8192.0f, 240.0f, false}; }
MUSAIC_FN Float8 float8_e5m2() { return {2, 0x7f, (127 - 15) << 2, 6.103515625e-5f, 128.0f, 57344.0f, true}; }
MUSAIC_FN Float8 float8_e5m2fnuz() {
  return {2, 0x80, (127 - 16) << 2, 3.0517578125e-5f, 64.0f, 57344.0f, false};
}

/// The code of v, in the low byte.
template <class V>
MUSAIC_FN typename IntOf<V>::Unsigned encode(const Float8& f, V v) {
  const auto bits = as_bits(v);
  const V size = from_bits(bits & all_bits<V>(0x7fffffffu));
  const V a = select(size < all<V>(f.largest), size, all<V>(f.largest));
  const std::uint32_t cut = 23 - f.mantissa_bits;
  const auto u = as_bits(a);
  const auto normal = ((u + all_bits<V>((1u << (cut - 1)) - 1) + ((u >> cut) & all_bits<V>(1u))) >> cut) -
                      all_bits<V>(f.rebias);
  const auto tiny = as_bits(a + all<V>(f.magic)) - all_bits<V>(as_bits(f.magic));
  const auto code = as_bits(select(a < all<V>(f.smallest_normal), from_bits(tiny), from_bits(normal)));
  const auto sign = (bits >> 24) & all_bits<V>(0x80u);
  const auto is_unsigned = code == all_bits<V>(f.has_negative_zero ? 0x100u : 0u);
  const auto with_sign = as_bits(select(is_unsigned, from_bits(code), from_bits(code | sign)));
  return as_bits(select(v == v, from_bits(with_sign), from_bits(all_bits<V>(f.nan_code))));
}

/// The two's complement of v, which is in [-128, 127] or NaN, in the low byte; NaN becomes 0.
template <class V>
MUSAIC_FN typename IntOf<V>::Unsigned encode_int8(V v, bool truncate) {
  const V number = select(v == v, v, all<V>(0.0f));
  const auto nearest = as_bits(number + all<V>(12582912.0f));
  const auto cut = __builtin_bit_cast(typename IntOf<V>::Unsigned, to_int(number));
  return (truncate ? cut : nearest) & all_bits<V>(0xffu);
}

/// The low bytes of eight codes, to any address.
MUSAIC_FN void store8_u8(std::uint8_t* p, U32x8 c) {
  const std::uint32_t low = c[0] | c[1] << 8 | c[2] << 16 | c[3] << 24,
                      high = c[4] | c[5] << 8 | c[6] << 16 | c[7] << 24;
  if (reinterpret_cast<std::uintptr_t>(p) % 8 == 0) {
    const std::uint64_t word = std::uint64_t{high} << 32 | low;
    *static_cast<std::uint64_t*>(__builtin_assume_aligned(p, 8)) = word;
  } else {
    for (int i = 0; i < 8; ++i) p[i] = static_cast<std::uint8_t>(c[i]);
  }
}

}  // namespace MUSAIC_TARGET
}  // namespace musaic
