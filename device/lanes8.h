// Eight lanes as a struct that a GPU's compiler keeps in registers, for the primitives.h of every GPU backend, which
// gives before it: MUSAIC_FN, float4, uint4 and the scalar fma, sqrt, div, as_bits, from_bits, to_int, to_float, select,
// larger, smaller.
#pragma once

#include <cstdint>
#include <type_traits>

namespace musaic::MUSAIC_TARGET {

template <class T>
struct Lanes8 {
  T lane[8];
  MUSAIC_FN T& operator[](int i) { return lane[i]; }
  MUSAIC_FN T operator[](int i) const { return lane[i]; }
};
using F32x8 = Lanes8<float>;
using I32x8 = Lanes8<std::int32_t>;
using U32x8 = Lanes8<std::uint32_t>;
using Mask8 = Lanes8<bool>;

/// {f(0), ..., f(7)}.
template <class F>
MUSAIC_FN auto lanes(F f) -> Lanes8<decltype(f(0))> {
  return {{f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)}};
}

// A vector with a vector, or with a scalar that converts to its element.
#define MUSAIC_LANE_OPERATOR(op, Result)                                              \
  template <class T>                                                                  \
  MUSAIC_FN Lanes8<Result> operator op(Lanes8<T> a, Lanes8<T> b) {                    \
    return lanes([&](int i) { return static_cast<Result>(a.lane[i] op b.lane[i]); }); \
  }                                                                                   \
  template <class T>                                                                  \
  MUSAIC_FN Lanes8<Result> operator op(Lanes8<T> a, std::common_type_t<T> b) {        \
    return lanes([&](int i) { return static_cast<Result>(a.lane[i] op b); });         \
  }
MUSAIC_LANE_OPERATOR(+, T)
MUSAIC_LANE_OPERATOR(-, T)
MUSAIC_LANE_OPERATOR(*, T)
MUSAIC_LANE_OPERATOR(&, T)
MUSAIC_LANE_OPERATOR(|, T)
MUSAIC_LANE_OPERATOR(^, T)
MUSAIC_LANE_OPERATOR(<<, T)
MUSAIC_LANE_OPERATOR(>>, T)
MUSAIC_LANE_OPERATOR(<, bool)
MUSAIC_LANE_OPERATOR(>, bool)
MUSAIC_LANE_OPERATOR(<=, bool)
MUSAIC_LANE_OPERATOR(>=, bool)
MUSAIC_LANE_OPERATOR(==, bool)
MUSAIC_LANE_OPERATOR(!=, bool)
#undef MUSAIC_LANE_OPERATOR

MUSAIC_FN F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  return lanes([&](int i) { return fma(a.lane[i], b.lane[i], c.lane[i]); });
}
MUSAIC_FN F32x8 sqrt(F32x8 a) {
  return lanes([&](int i) { return sqrt(a.lane[i]); });
}
MUSAIC_FN F32x8 div(F32x8 a, F32x8 b) {
  return lanes([&](int i) { return div(a.lane[i], b.lane[i]); });
}
MUSAIC_FN U32x8 as_bits(F32x8 a) {
  return lanes([&](int i) { return as_bits(a.lane[i]); });
}
MUSAIC_FN F32x8 from_bits(U32x8 a) {
  return lanes([&](int i) { return from_bits(a.lane[i]); });
}
MUSAIC_FN I32x8 to_int(F32x8 a) {
  return lanes([&](int i) { return to_int(a.lane[i]); });
}
MUSAIC_FN F32x8 to_float(I32x8 a) {
  return lanes([&](int i) { return to_float(a.lane[i]); });
}
MUSAIC_FN F32x8 select(Mask8 m, F32x8 a, F32x8 b) {
  return lanes([&](int i) { return m.lane[i] ? a.lane[i] : b.lane[i]; });
}
MUSAIC_FN F32x8 larger(F32x8 a, F32x8 b) {
  return lanes([&](int i) { return larger(a.lane[i], b.lane[i]); });
}
MUSAIC_FN F32x8 smaller(F32x8 a, F32x8 b) {
  return lanes([&](int i) { return smaller(a.lane[i], b.lane[i]); });
}
MUSAIC_FN bool any(Mask8 m) {
  return ((m.lane[0] || m.lane[1]) || (m.lane[2] || m.lane[3])) ||
         ((m.lane[4] || m.lane[5]) || (m.lane[6] || m.lane[7]));
}
MUSAIC_FN F32x8 splat(F32x8, float a) { return {{a, a, a, a, a, a, a, a}}; }
MUSAIC_FN U32x8 splat(U32x8, std::uint32_t a) { return {{a, a, a, a, a, a, a, a}}; }
MUSAIC_FN I32x8 splat(I32x8, std::int32_t a) { return {{a, a, a, a, a, a, a, a}}; }
/// Lane numbers 0 to 7.
MUSAIC_FN I32x8 lane_index() { return {{0, 1, 2, 3, 4, 5, 6, 7}}; }

/// Whether accesses of 16 bytes are possible at an address: a vector access off its alignment faulted [MA].
MUSAIC_FN bool is_wide(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

MUSAIC_FN F32x8 load8(const float* p) {
  if (is_wide(p)) {
    const float4 a = reinterpret_cast<const float4*>(p)[0], b = reinterpret_cast<const float4*>(p)[1];
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  }
  return lanes([&](int i) { return p[i]; });
}
MUSAIC_FN void store8(float* p, F32x8 v) {
  if (is_wide(p)) {
    reinterpret_cast<float4*>(p)[0] = float4{v[0], v[1], v[2], v[3]};
    reinterpret_cast<float4*>(p)[1] = float4{v[4], v[5], v[6], v[7]};
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) p[i] = v.lane[i];
  }
}

/// Eight 16-bit codes, zero-extended.
MUSAIC_FN U32x8 load8_u16(const void* p) {
  if (is_wide(p)) {
    const uint4 a = *static_cast<const uint4*>(p);
    return {{a.x & 0xffffu, a.x >> 16, a.y & 0xffffu, a.y >> 16, a.z & 0xffffu, a.z >> 16, a.w & 0xffffu,
             a.w >> 16}};
  }
  const std::uint16_t* codes = static_cast<const std::uint16_t*>(p);
  return lanes([&](int i) { return std::uint32_t{codes[i]}; });
}
/// The low 16 bits of each lane; the high bits are zero.
MUSAIC_FN void store8_u16(void* p, U32x8 v) {
  if (is_wide(p)) {
    *static_cast<uint4*>(p) =
        uint4{v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16};
  } else {
    std::uint16_t* codes = static_cast<std::uint16_t*>(p);
#pragma unroll
    for (int i = 0; i < 8; ++i) codes[i] = static_cast<std::uint16_t>(v.lane[i]);
  }
}

MUSAIC_FN float tree_sum(F32x8 v) {
  return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

/// Lanes 0, 2, 4, 6 of a, then of b; and lanes 1, 3, 5, 7.
MUSAIC_FN F32x8 even_lanes(F32x8 a, F32x8 b) { return {{a[0], a[2], a[4], a[6], b[0], b[2], b[4], b[6]}}; }
MUSAIC_FN F32x8 odd_lanes(F32x8 a, F32x8 b) { return {{a[1], a[3], a[5], a[7], b[1], b[3], b[5], b[7]}}; }
/// The first and the second half of a[0], b[0], a[1], b[1], ..., a[7], b[7].
MUSAIC_FN F32x8 interleave_low(F32x8 a, F32x8 b) {
  return {{a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]}};
}
MUSAIC_FN F32x8 interleave_high(F32x8 a, F32x8 b) {
  return {{a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7]}};
}

}  // namespace musaic::MUSAIC_TARGET
