// A float32 value as a storage type would keep it.
#pragma once

#include "device/number.h"

namespace musaic::MUSAIC_TARGET {

MUSAIC_FN float rounded_to_half(float v) {
  Half h;
  store(&h, v);
  return load(h);
}
MUSAIC_FN F32x8 rounded_to_half(F32x8 v) {
  float w[8];
  store8(w, v);
  for (int i = 0; i < 8; ++i) w[i] = rounded_to_half(w[i]);
  return load8(w);
}

/// v rounded to a storage type known at run time.
template <class V>
MUSAIC_FN V rounded(V v, FloatKind kind) {
  if (kind == FloatKind::kF32) return v;
  if (kind == FloatKind::kF16) return rounded_to_half(v);
  const auto u = as_bits(canonical(v));
  return from_bits(((u + all_bits<V>(0x7fffu) + ((u >> 16) & all_bits<V>(1u))) >> 16) << 16);
}

}  // namespace musaic::MUSAIC_TARGET
