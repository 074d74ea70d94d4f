// What device/ builds on, for the SIMT executor: the surface of backends/cuda/primitives.h and backends/musa/primitives.h,
// each operation with the CPU's rounding. One build serves all targets.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backends/simt/kernel.h"

#define MUSAIC_FN inline
// A large function off the fast path.
#define MUSAIC_CALLED_FN inline

namespace musaic::MUSAIC_TARGET {

MUSAIC_FN float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
/// a + b rounded toward zero, for 0 <= a < b: what the sum gained over a, exactly, tells whether it was rounded up.
MUSAIC_FN float add_toward_zero(float a, float b) {
  const float sum = a + b;
  return sum - b > a ? __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, sum) - 1u) : sum;
}
MUSAIC_FN float sqrt(float a) { return __builtin_sqrtf(a); }
MUSAIC_FN float div(float a, float b) { return a / b; }
MUSAIC_FN std::uint32_t as_bits(float a) { return __builtin_bit_cast(std::uint32_t, a); }
MUSAIC_FN float from_bits(std::uint32_t a) { return __builtin_bit_cast(float, a); }
MUSAIC_FN std::int32_t to_int(float a) { return static_cast<std::int32_t>(a); }
MUSAIC_FN float to_float(std::int32_t a) { return static_cast<float>(a); }
MUSAIC_FN float select(bool m, float a, float b) { return m ? a : b; }
MUSAIC_FN float larger(float a, float b) { return a > b ? a : b; }
MUSAIC_FN float smaller(float a, float b) { return a < b ? a : b; }

// Where threads meet, they have to agree on the line, so it is the caller's. A barrier for shared memory orders
// nothing else, on every target: one of them has no more than that.
MUSAIC_FN void sync_shared(MUSAIC_SIMT_SITE) {
  simt::barrier(simt::BarrierKind::kSharedOnly, 0, {file_, line_, column_});
}
MUSAIC_FN void sync_block(MUSAIC_SIMT_SITE) {
  simt::barrier(simt::BarrierKind::kFull, 0, {file_, line_, column_});
}
MUSAIC_FN void sync_warp(MUSAIC_SIMT_SITE) { __syncwarp(simt::kEveryLane, file_, line_, column_); }

template <class T>
MUSAIC_FN T exchange_xor(T v, int by, MUSAIC_SIMT_SITE) {
  return __shfl_xor_sync(simt::kEveryLane, v, by, 32, file_, line_, column_);
}
template <class T>
MUSAIC_FN T exchange_from(T v, int lane, MUSAIC_SIMT_SITE) {
  return __shfl_sync(simt::kEveryLane, v, lane, 32, file_, line_, column_);
}
template <class T>
MUSAIC_FN T exchange_up(T v, int by, MUSAIC_SIMT_SITE) {
  return __shfl_up_sync(simt::kEveryLane, v, by, 32, file_, line_, column_);
}

/// c and the four products of a's and b's signed bytes.
MUSAIC_FN std::int32_t dot4(std::uint32_t a, std::uint32_t b, std::int32_t c) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), c);
}

MUSAIC_FN void store_release(std::uint32_t* flag, std::uint32_t value) { simt::store_release(flag, value); }
MUSAIC_FN std::uint32_t load_acquire(std::uint32_t* flag) { return simt::load_acquire(flag); }

inline constexpr bool kHasHalfConversion = false;

}  // namespace musaic::MUSAIC_TARGET

#include "device/lanes8.h"

namespace musaic::MUSAIC_TARGET {
MUSAIC_FN F32x8 load8_half(const void*) { return {}; }
MUSAIC_FN void store8_half(void*, F32x8) {}
}  // namespace musaic::MUSAIC_TARGET
