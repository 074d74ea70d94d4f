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
// A large function off the fast path.
#define MUSAIC_CALLED_FN inline __device__ __noinline__

#include "backends/gpu_dialect.h"

namespace musaic::MUSAIC_TARGET {

/// Lanes that run in lock step, by target and never by what the host's properties say: they print 128 on
/// mp_22, where device code reads 32 [M-S4000-51]. The logical warp is 32 everywhere.
inline constexpr int kHardwareWarp = MUSAIC_MUSA_HARDWARE_WARP;
static_assert(kHardwareWarp == 32 || kHardwareWarp == 128, "mp_31 has 32 lanes, mp_22 and mp_21 have 128");

MUSAIC_FN float fma(float a, float b, float c) { return fmaf(a, b, c); }  // [M-S4000-51]
MUSAIC_FN std::uint32_t as_bits(float a) { return __float_as_uint(a); }
MUSAIC_FN float from_bits(std::uint32_t a) { return __uint_as_float(a); }
/// a + b rounded toward zero, for 0 <= a < b: what the sum gained over a, exactly, tells whether it was rounded up.
MUSAIC_FN float add_toward_zero(float a, float b) {
  const float sum = a + b;
  return sum - b > a ? from_bits(as_bits(sum) - 1u) : sum;
}

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

/// c and the four products of a's and b's signed bytes [GG, TL].
MUSAIC_FN std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t c) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), c);
}

/// Publishes what the block wrote to shared memory, and nothing else: the light barrier exists on mp_31 alone
/// and is not known to order global memory [TM MUSAMacros.muh, SG common.muh]. The one place that calls it.
MUSAIC_FN void sync_shared() {
#if defined(__MUSA_ARCH__) && __MUSA_ARCH__ == 310
  __syncthreads_lm();
#else
  __syncthreads();
#endif
}

/// Eight bytes that are read or written once, past the caches [SG kvcacheio/transfer.cu].
MUSAIC_FN std::uint64_t load_once(const std::uint64_t* p) { return __builtin_nontemporal_load(p); }
MUSAIC_FN void store_once(std::uint64_t* p, std::uint64_t v) { __builtin_nontemporal_store(v, p); }

/// The conversion instructions are not relied on: 512 conversions were exact on an S4000 [M-S4000-51], which is no
/// proof for the other 65,024 codes nor for narrowing, and several half names are declared without a body
/// [M-S4000-31, IO].
inline constexpr bool kHasHalfConversion = false;

}  // namespace musaic::MUSAIC_TARGET

#include "device/lanes8.h"

namespace musaic::MUSAIC_TARGET {
MUSAIC_FN F32x8 load8_half(const void*) { return {}; }
MUSAIC_FN void store8_half(void*, F32x8) {}
}  // namespace musaic::MUSAIC_TARGET
