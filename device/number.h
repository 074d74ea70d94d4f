// Storage types and their conversions: widening is exact, narrowing rounds to nearest even, a NaN is stored
// canonical (7fc00000, 7fc0, 7e00, 7f).
#pragma once

#include "device/args.h"
#include "device/vec.h"

namespace musaic::MUSAIC_TARGET {

struct Half {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

MUSAIC_FN float load(float v) { return v; }
MUSAIC_FN float load(BFloat16 v) { return from_bits(std::uint32_t{v.bits} << 16); }
MUSAIC_FN float load(Half v) {
  const std::uint32_t sign = (std::uint32_t{v.bits} & 0x8000u) << 16;
  const std::uint32_t magnitude = v.bits & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity and NaN
    return from_bits(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13) |
                     (magnitude > 0x7c00u ? 0x400000u : 0u));
  if (magnitude >= 0x400u) return from_bits(sign | ((magnitude << 13) + 0x38000000u));
  return from_bits(sign | as_bits(static_cast<float>(magnitude) * from_bits(0x33800000u)));  // times 2^-24
}

MUSAIC_FN void store(float* p, float v) { *p = canonical(v); }
MUSAIC_FN void store(BFloat16* p, float v) {
  const std::uint32_t u = as_bits(canonical(v));
  p->bits = static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
MUSAIC_FN void store(Half* p, float v) {
  const std::uint32_t u = as_bits(canonical(v));
  const std::uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  std::uint32_t h;
  if (magnitude >= 0x47800000u) {  // 2^16 and above, infinity, NaN
    h = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  } else if (magnitude >=
             0x38800000u) {  // normal halves; a carry out of the mantissa reaches infinity rightly
    h = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  } else {  // subnormal halves: adding 0.5 puts the 2^-24 unit at the float's last place, which rounds to
            // even
    h = as_bits(from_bits(magnitude) + 0.5f) - 0x3f000000u;
  }
  p->bits = static_cast<std::uint16_t>(sign | h);
}

MUSAIC_FN F32x8 load8(const BFloat16* p) { return from_bits(load8_u16(p) << 16); }
MUSAIC_FN void store8(BFloat16* p, F32x8 v) {
  const U32x8 u = as_bits(v);
  store8_u16(p, (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
MUSAIC_FN F32x8 load8(const Half* p) {
  if constexpr (kHasHalfConversion) {
    return load8_half(p);
  } else {
    const U32x8 codes = load8_u16(p);
    float v[8];
    for (int i = 0; i < 8; ++i) v[i] = load(Half{static_cast<std::uint16_t>(codes[i])});
    return load8(v);
  }
}
MUSAIC_FN void store8(Half* p, F32x8 v) {
  if constexpr (kHasHalfConversion) {
    store8_half(p, v);
  } else {
    U32x8 codes = {};
    float w[8];
    store8(w, v);
    for (int i = 0; i < 8; ++i) {
      Half h;
      store(&h, w[i]);
      codes[i] = h.bits;
    }
    store8_u16(p, codes);
  }
}

/// Host side: calls f with a null pointer of the storage type, so that f(auto* t) can name it.
template <class F>
void for_float_kind(FloatKind kind, F&& f) {
  switch (kind) {
    case FloatKind::kF32:
      return f(static_cast<float*>(nullptr));
    case FloatKind::kF16:
      return f(static_cast<Half*>(nullptr));
    case FloatKind::kBF16:
      return f(static_cast<BFloat16*>(nullptr));
  }
}

}  // namespace musaic::MUSAIC_TARGET
