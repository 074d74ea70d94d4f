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
// A large function off the fast path.
#define MUSAIC_CALLED_FN inline __device__ __noinline__

#include "backends/gpu_dialect.h"

namespace musaic::MUSAIC_TARGET {

MUSAIC_FN float fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
MUSAIC_FN float add_toward_zero(float a, float b) { return __fadd_rz(a, b); }
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

/// c and the four products of a's and b's signed bytes.
MUSAIC_FN std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t c) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), c);
}

/// Publishes to the block what its threads wrote to shared memory.
MUSAIC_FN void sync_shared() { __syncthreads(); }
}  // namespace musaic::MUSAIC_TARGET

#include "device/lanes8.h"

namespace musaic::MUSAIC_TARGET {

inline constexpr bool kHasHalfConversion = true;
MUSAIC_FN F32x8 load8_half(const void* p) {
  const U32x8 u = load8_u16(p);
  return lanes([&](int i) { return __half2float(__ushort_as_half(static_cast<unsigned short>(u.lane[i]))); });
}
MUSAIC_FN void store8_half(void* p, F32x8 v) {
  // The instruction's own NaN is 7fff.
  store8_u16(p, lanes([&](int i) {
               return v.lane[i] == v.lane[i]
                          ? static_cast<std::uint32_t>(__half_as_ushort(__float2half_rn(v.lane[i])))
                          : 0x7e00u;
             }));
}

}  // namespace musaic::MUSAIC_TARGET
