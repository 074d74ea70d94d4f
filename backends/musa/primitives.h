// What device/ builds on, for Moore Threads GPUs: the surface of backends/cuda/primitives.h out of names that
// public MUSA code uses. Tags in brackets name the public source (docs/musa.md). No inline assembly, no half
// arithmetic, and no operation whose rounding is not known.
#pragma once

#include <musa_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

// mcc is a clang and takes the pragma as well as the flag; other compilers of this header have a flag alone.
#if defined(__clang__)
#pragma clang fp contract(off)
#endif

#define MUSAIC_FN __device__ __forceinline__

namespace musaic::MUSAIC_TARGET {

/// Lanes that run in lock step, by target and never by what the host's properties say: they print 128 on
/// mp_22, where device code reads 32 [M-S4000-51]. The logical warp is 32 everywhere.
inline constexpr int kHardwareWarp = MUSAIC_MUSA_HARDWARE_WARP;
static_assert(kHardwareWarp == 32 || kHardwareWarp == 128, "mp_31 has 32 lanes, mp_22 and mp_21 have 128");

MUSAIC_FN float fma(float a, float b, float c) { return fmaf(a, b, c); }  // [M-S4000-51]
MUSAIC_FN std::uint32_t as_bits(float a) { return __float_as_uint(a); }
MUSAIC_FN float from_bits(std::uint32_t a) { return __uint_as_float(a); }

}  // namespace musaic::MUSAIC_TARGET

#include "backends/musa/rounding.h"

namespace musaic::MUSAIC_TARGET {

/// Correctly rounded root. No public MUSA code was seen to use a root that rounds correctly, so rsqrtf, whose
/// error is not documented, is refined once and then corrected by residuals.
MUSAIC_FN float sqrt(float a) {
  return rounded_sqrt(a, [](float m) {
    const float r = rsqrtf(m), y = m * r;
    return fma(fma(-y, y, m), 0.5f * r, y);
  });
}

/// Correctly rounded quotient. Plain `/` was one unit off on an S4000 where __fdiv_rn was exact [M-S4000-51];
/// should a device's __fdiv_rn not be, MUSAIC_MUSA_DIV_BY_RESIDUAL builds the quotient from `/` and
/// residuals.
MUSAIC_FN float div(float a, float b) {
#if defined(MUSAIC_MUSA_DIV_BY_RESIDUAL)
  return rounded_div(a, b, [](float n, float d) { return n / d; });
#else
  return __fdiv_rn(a, b);
#endif
}

MUSAIC_FN std::int32_t to_int(float a) { return static_cast<std::int32_t>(a); }
MUSAIC_FN float to_float(std::int32_t a) { return static_cast<float>(a); }
MUSAIC_FN float select(bool m, float a, float b) { return m ? a : b; }
MUSAIC_FN float larger(float a, float b) { return a > b ? a : b; }
MUSAIC_FN float smaller(float a, float b) { return a < b ? a : b; }

/// Publishes what the block wrote to shared memory, and nothing else: the light barrier exists on mp_31 alone
/// and is not known to order global memory [TM MUSAMacros.muh, SG common.muh]. The one place that calls it.
MUSAIC_FN void sync_shared() {
#if defined(__MUSA_ARCH__) && __MUSA_ARCH__ == 310
  __syncthreads_lm();
#else
  __syncthreads();
#endif
}

/// What lane (lane xor by) of the same 32 holds; every lane of the hardware warp must call it. A width of 64
/// or 128 gave wrong lanes on an S4000 [M-S4000-51], so the width is always written and never above 32.
MUSAIC_FN float exchange_xor(float v, int by) { return __shfl_xor_sync(0xffffffffu, v, by, 32); }

/// Flags between blocks, devices and the host: a full fence and a volatile access [MC, DE]. The _system
/// atomics sent a compiler into an endless loop [MC].
MUSAIC_FN void store_release(std::uint32_t* flag, std::uint32_t value) {
  __threadfence_system();
  *static_cast<volatile std::uint32_t*>(flag) = value;
}
MUSAIC_FN std::uint32_t load_acquire(std::uint32_t* flag) {
  const std::uint32_t value = *static_cast<volatile std::uint32_t*>(flag);
  __threadfence_system();
  return value;
}

/// Eight bytes that are read or written once, past the caches [SG kvcacheio/transfer.cu].
MUSAIC_FN std::uint64_t load_once(const std::uint64_t* p) { return __builtin_nontemporal_load(p); }
MUSAIC_FN void store_once(std::uint64_t* p, std::uint64_t v) { __builtin_nontemporal_store(v, p); }

// ---- Eight lanes, which the compiler keeps in registers ----

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

// Half precision in software: 512 conversions were exact on an S4000 [M-S4000-51], which is no proof for the
// other 65,024 codes nor for narrowing, and several half names are declared without a body [M-S4000-31, IO].
inline constexpr bool kHasHalfConversion = true;
MUSAIC_FN float widen_half(std::uint32_t code) {
  const std::uint32_t sign = (code & 0x8000u) << 16, magnitude = code & 0x7fffu;
  if (magnitude >= 0x7c00u)  // infinity and NaN, which turns quiet
    return from_bits(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13 |
                     (magnitude > 0x7c00u ? 0x400000u : 0u));
  if (magnitude >= 0x400u) return from_bits(sign | ((magnitude << 13) + 0x38000000u));
  return from_bits(sign | as_bits(static_cast<float>(magnitude) * from_bits(0x33800000u)));  // times 2^-24
}
MUSAIC_FN std::uint32_t narrow_half(float v) {
  const std::uint32_t bits = as_bits(v), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7e00u;
  if (magnitude >= 0x47800000u) return sign | 0x7c00u;  // from 2^16 on
  // A carry out of a normal half's mantissa reaches the next exponent, and infinity, rightly.
  if (magnitude >= 0x38800000u)
    return sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  // Adding 0.5 puts a subnormal half's unit, 2^-24, at the last place of the sum, which rounds to even.
  return sign | (as_bits(from_bits(magnitude) + 0.5f) - 0x3f000000u);
}
MUSAIC_FN F32x8 load8_half(const void* p) {
  const U32x8 codes = load8_u16(p);
  return lanes([&](int i) { return widen_half(codes.lane[i]); });
}
MUSAIC_FN void store8_half(void* p, F32x8 v) {
  store8_u16(p, lanes([&](int i) { return narrow_half(v.lane[i]); }));
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
