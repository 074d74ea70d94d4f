// What device/ builds on, for NVIDIA GPUs: eight lanes as a struct that the compiler keeps in registers.
// Contraction is off (--fmad=false) and every division and root is the correctly rounded one, so each
// operation has the CPU's bits.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#define MUSAIC_FN __device__ __forceinline__

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

/// op applied lane by lane.
template <class R, class F>
MUSAIC_FN Lanes8<R> by_lane(F op) {
  Lanes8<R> r;
#pragma unroll
  for (int i = 0; i < 8; ++i) r.lane[i] = op(i);
  return r;
}

// Both operands vectors, or one of them a scalar of a type that converts.
#define MUSAIC_LANE_OPERATOR(op, Result)                                       \
  template <class T>                                                           \
  MUSAIC_FN Lanes8<Result> operator op(Lanes8<T> a, Lanes8<T> b) {             \
    return by_lane<Result>([&](int i) { return a.lane[i] op b.lane[i]; });     \
  }                                                                            \
  template <class T>                                                           \
  MUSAIC_FN Lanes8<Result> operator op(Lanes8<T> a, std::common_type_t<T> b) { \
    return by_lane<Result>([&](int i) { return a.lane[i] op b; });             \
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

MUSAIC_FN float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
MUSAIC_FN float sqrt(float a) { return __fsqrt_rn(a); }
/// Correctly rounded quotient.
MUSAIC_FN float div(float a, float b) { return __fdiv_rn(a, b); }
MUSAIC_FN std::uint32_t as_bits(float a) { return __float_as_uint(a); }
MUSAIC_FN float from_bits(std::uint32_t a) { return __uint_as_float(a); }
MUSAIC_FN std::int32_t to_int(float a) { return static_cast<std::int32_t>(a); }
MUSAIC_FN float to_float(std::int32_t a) { return static_cast<float>(a); }
MUSAIC_FN float select(bool m, float a, float b) { return m ? a : b; }
MUSAIC_FN float larger(float a, float b) { return a > b ? a : b; }
MUSAIC_FN float smaller(float a, float b) { return a < b ? a : b; }

/// What lane (lane xor by) of the same 32 holds.
MUSAIC_FN float exchange_xor(float v, int by) { return __shfl_xor_sync(0xffffffffu, v, by, 32); }
/// Publishes to the block what its threads wrote to shared memory.
MUSAIC_FN void sync_shared() { __syncthreads(); }

MUSAIC_FN F32x8 fma(F32x8 a, F32x8 b, F32x8 c) {
  return by_lane<float>([&](int i) { return fma(a.lane[i], b.lane[i], c.lane[i]); });
}
MUSAIC_FN F32x8 sqrt(F32x8 a) {
  return by_lane<float>([&](int i) { return sqrt(a.lane[i]); });
}
MUSAIC_FN F32x8 div(F32x8 a, F32x8 b) {
  return by_lane<float>([&](int i) { return div(a.lane[i], b.lane[i]); });
}
MUSAIC_FN U32x8 as_bits(F32x8 a) {
  return by_lane<std::uint32_t>([&](int i) { return as_bits(a.lane[i]); });
}
MUSAIC_FN F32x8 from_bits(U32x8 a) {
  return by_lane<float>([&](int i) { return from_bits(a.lane[i]); });
}
MUSAIC_FN I32x8 to_int(F32x8 a) {
  return by_lane<std::int32_t>([&](int i) { return to_int(a.lane[i]); });
}
MUSAIC_FN F32x8 to_float(I32x8 a) {
  return by_lane<float>([&](int i) { return to_float(a.lane[i]); });
}
MUSAIC_FN F32x8 select(Mask8 m, F32x8 a, F32x8 b) {
  return by_lane<float>([&](int i) { return m.lane[i] ? a.lane[i] : b.lane[i]; });
}
MUSAIC_FN F32x8 larger(F32x8 a, F32x8 b) {
  return by_lane<float>([&](int i) { return larger(a.lane[i], b.lane[i]); });
}
MUSAIC_FN F32x8 smaller(F32x8 a, F32x8 b) {
  return by_lane<float>([&](int i) { return smaller(a.lane[i], b.lane[i]); });
}
MUSAIC_FN bool any(Mask8 m) {
  bool r = false;
#pragma unroll
  for (int i = 0; i < 8; ++i) r = r || m.lane[i];
  return r;
}
MUSAIC_FN F32x8 splat(F32x8, float a) {
  return by_lane<float>([&](int) { return a; });
}
MUSAIC_FN U32x8 splat(U32x8, std::uint32_t a) {
  return by_lane<std::uint32_t>([&](int) { return a; });
}
MUSAIC_FN I32x8 splat(I32x8, std::int32_t a) {
  return by_lane<std::int32_t>([&](int) { return a; });
}
/// Lane numbers 0 to 7.
MUSAIC_FN I32x8 lane_index() {
  return by_lane<std::int32_t>([&](int i) { return i; });
}

/// Whether accesses of 16 bytes are possible at an address; the same for all threads of a row, whose chunks
/// lie a multiple of 16 bytes apart.
MUSAIC_FN bool is_wide(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

MUSAIC_FN F32x8 load8(const float* p) {
  F32x8 v;
  if (is_wide(p)) {
    const float4 a = reinterpret_cast<const float4*>(p)[0], b = reinterpret_cast<const float4*>(p)[1];
    v = {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) v.lane[i] = p[i];
  }
  return v;
}
MUSAIC_FN void store8(float* p, F32x8 v) {
  if (is_wide(p)) {
    reinterpret_cast<float4*>(p)[0] = make_float4(v[0], v[1], v[2], v[3]);
    reinterpret_cast<float4*>(p)[1] = make_float4(v[4], v[5], v[6], v[7]);
  } else {
#pragma unroll
    for (int i = 0; i < 8; ++i) p[i] = v.lane[i];
  }
}

/// Eight 16-bit codes, zero-extended.
MUSAIC_FN U32x8 load8_u16(const void* p) {
  U32x8 r;
  if (is_wide(p)) {
    const uint4 a = *static_cast<const uint4*>(p);
    const std::uint32_t pair[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      r.lane[2 * i] = pair[i] & 0xffffu;
      r.lane[2 * i + 1] = pair[i] >> 16;
    }
  } else {
    const std::uint16_t* h = static_cast<const std::uint16_t*>(p);
#pragma unroll
    for (int i = 0; i < 8; ++i) r.lane[i] = h[i];
  }
  return r;
}
/// The low 16 bits of each lane; the high bits are zero.
MUSAIC_FN void store8_u16(void* p, U32x8 v) {
  if (is_wide(p)) {
    *static_cast<uint4*>(p) =
        make_uint4(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
  } else {
    std::uint16_t* h = static_cast<std::uint16_t*>(p);
#pragma unroll
    for (int i = 0; i < 8; ++i) h[i] = static_cast<std::uint16_t>(v.lane[i]);
  }
}

inline constexpr bool kHasHalfConversion = true;
MUSAIC_FN F32x8 load8_half(const void* p) {
  const U32x8 u = load8_u16(p);
  return by_lane<float>(
      [&](int i) { return __half2float(__ushort_as_half(static_cast<unsigned short>(u.lane[i]))); });
}
MUSAIC_FN void store8_half(void* p, F32x8 v) {
  // The instruction's own NaN is 7fff.
  store8_u16(p, by_lane<std::uint32_t>([&](int i) {
               return v.lane[i] == v.lane[i]
                          ? static_cast<std::uint32_t>(__half_as_ushort(__float2half_rn(v.lane[i])))
                          : 0x7e00u;
             }));
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
