// Eight lanes of float32 and the scalar forms of the same operations, so that one expression serves both.
// primitives.h gives: F32x8, I32x8, U32x8 with + - * & | ^ << >> and comparisons; fma, div, sqrt, select,
// larger, smaller, as_bits, from_bits, to_int (truncating), to_float, splat, any, load8, store8, even_lanes,
// odd_lanes, interleave_low, interleave_high.
#pragma once

#include "primitives.h"

namespace musaic::MUSAIC_TARGET {

template <class V>
struct IntOf;
template <>
struct IntOf<float> {
  using Signed = std::int32_t;
  using Unsigned = std::uint32_t;
};
template <>
struct IntOf<F32x8> {
  using Signed = I32x8;
  using Unsigned = U32x8;
};

MUSAIC_FN float splat(float, float a) { return a; }
MUSAIC_FN std::uint32_t splat(std::uint32_t, std::uint32_t a) { return a; }
MUSAIC_FN std::int32_t splat(std::int32_t, std::int32_t a) { return a; }

/// A constant in every lane: all<V>(1.0f).
template <class V>
MUSAIC_FN V all(float a) {
  return splat(V{}, a);
}
template <class V>
MUSAIC_FN typename IntOf<V>::Unsigned all_bits(std::uint32_t a) {
  return splat(typename IntOf<V>::Unsigned{}, a);
}

/// A NaN becomes 7fc00000; everything else passes.
template <class V>
MUSAIC_FN V canonical(V v) {
  return select(v == v, v, all<V>(from_bits(0x7fc00000u)));
}

}  // namespace musaic::MUSAIC_TARGET
