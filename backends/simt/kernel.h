// The language of kernels on the host: what a .cu, .mu or .hip file may use, under the same names.
// A kernel's unit is compiled with the flags of musaic_simt_kernels (backend.cmake), which call the checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backends/simt/intrinsic.h"

// Block operations, also those that the compiler makes out of assignments, go to the checks (hooks.cc).
#if !defined(__clang__)
extern "C" {
void* memcpy(void*, const void*, std::size_t) noexcept __asm__("musaic_simt_memcpy");
void* memmove(void*, const void*, std::size_t) noexcept __asm__("musaic_simt_memmove");
void* memset(void*, int, std::size_t) noexcept __asm__("musaic_simt_memset");
}
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

#define MUSAIC_SIMT_VECTORS(base, T)                         \
  struct alignas(2 * sizeof(T)) base##2 { T x, y; };         \
  struct alignas(4 * sizeof(T)) base##4 { T x, y, z, w; };   \
  inline base##2 make_##base##2(T x, T y) { return {x, y}; } \
  inline base##4 make_##base##4(T x, T y, T z, T w) { return {x, y, z, w}; }
MUSAIC_SIMT_VECTORS(float, float)
MUSAIC_SIMT_VECTORS(int, int)
MUSAIC_SIMT_VECTORS(uint, unsigned)
#undef MUSAIC_SIMT_VECTORS

#define threadIdx (::musaic::simt::self().thread_index)
#define blockIdx (::musaic::simt::self().block_index)
#define blockDim (::musaic::simt::self().block_extent)
#define gridDim (::musaic::simt::self().grid_extent)
#define warpSize (::musaic::simt::self().warp_size)

/// `__shared__ T name`, T also an array type: MUSAIC_SHARED(float[256], tile).
#define MUSAIC_SHARED(T, name) auto& name = ::musaic::simt::shared_variable_of<T>([] {})
/// `extern __shared__ T name[]`.
#define MUSAIC_DYNAMIC_SHARED(T, name) T* name = static_cast<T*>(::musaic::simt::dynamic_shared())
/// `__constant__ T name`, T also an array type, to be initialised at once: MUSAIC_CONSTANT(float[4], table) = {...};
/// A launch of a kernel whose unit has more of it than the target is a finding.
#define MUSAIC_CONSTANT(T, name)                                \
  [[maybe_unused]] static const bool name##_is_counted =        \
      ::musaic::simt::count_constant(__BASE_FILE__, sizeof(T)); \
  alignas(16) static const std::type_identity_t<T> name
/// As the first statement of a kernel: what its __launch_bounds__ promises, checked.
#define MUSAIC_LAUNCH_BOUNDS(max_threads) ::musaic::simt::check_launch_bounds(max_threads)

inline void __syncthreads(MUSAIC_SIMT_SITE) {
  musaic::simt::barrier(musaic::simt::BarrierKind::kFull, 0, {file_, line_, column_});
}
/// Orders shared memory alone (MUSA's light barrier).
inline void __syncthreads_lm(MUSAIC_SIMT_SITE) {
  musaic::simt::barrier(musaic::simt::BarrierKind::kSharedOnly, 0, {file_, line_, column_});
}
inline int __syncthreads_or(int p, MUSAIC_SIMT_SITE) {
  return musaic::simt::barrier(musaic::simt::BarrierKind::kOr, p, {file_, line_, column_});
}
inline int __syncthreads_and(int p, MUSAIC_SIMT_SITE) {
  return musaic::simt::barrier(musaic::simt::BarrierKind::kAnd, p, {file_, line_, column_});
}
inline int __syncthreads_count(int p, MUSAIC_SIMT_SITE) {
  return musaic::simt::barrier(musaic::simt::BarrierKind::kCount, p, {file_, line_, column_});
}
inline void __syncwarp(std::uint64_t mask = musaic::simt::kEveryLane, MUSAIC_SIMT_SITE) {
  musaic::simt::exchange(musaic::simt::ExchangeOp::kSync, mask, nullptr, 0, 0, 1, {file_, line_, column_});
}

#define MUSAIC_SIMT_SHUFFLE(spelling, op)                                                                \
  template <class T>                                                                                     \
  inline T spelling(std::uint64_t mask, T value, int argument, int width = warpSize, MUSAIC_SIMT_SITE) { \
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);                                   \
    musaic::simt::exchange(musaic::simt::ExchangeOp::op, mask, &value, sizeof(T), argument, width,       \
                           {file_, line_, column_});                                                     \
    return value;                                                                                        \
  }
MUSAIC_SIMT_SHUFFLE(__shfl_sync, kIndex)
MUSAIC_SIMT_SHUFFLE(__shfl_xor_sync, kXor)
MUSAIC_SIMT_SHUFFLE(__shfl_up_sync, kUp)
MUSAIC_SIMT_SHUFFLE(__shfl_down_sync, kDown)
#undef MUSAIC_SIMT_SHUFFLE

/// HIP's spelling: no mask, all lanes.
#define MUSAIC_SIMT_SHUFFLE(spelling, synced)                                               \
  template <class T>                                                                        \
  inline T spelling(T value, int argument, int width = warpSize, MUSAIC_SIMT_SITE) {        \
    return synced(musaic::simt::kEveryLane, value, argument, width, file_, line_, column_); \
  }
MUSAIC_SIMT_SHUFFLE(__shfl, __shfl_sync)
MUSAIC_SIMT_SHUFFLE(__shfl_xor, __shfl_xor_sync)
MUSAIC_SIMT_SHUFFLE(__shfl_up, __shfl_up_sync)
MUSAIC_SIMT_SHUFFLE(__shfl_down, __shfl_down_sync)
#undef MUSAIC_SIMT_SHUFFLE

/// The vote of the caller's hardware warp, or of its 32 lanes where masks are narrower than the warp.
inline std::uint64_t __ballot(bool p, MUSAIC_SIMT_SITE) {
  std::uint64_t v = p;
  musaic::simt::exchange(musaic::simt::ExchangeOp::kBallot, musaic::simt::kEveryLane, &v, sizeof v, 0, 1,
                         {file_, line_, column_});
  return v;
}
/// 32 bits, as CUDA and MUSA document it.
inline unsigned __ballot_sync(std::uint64_t mask, bool p, MUSAIC_SIMT_SITE) {
  std::uint64_t v = p;
  musaic::simt::exchange(musaic::simt::ExchangeOp::kBallot, mask, &v, sizeof v, 0, 1,
                         {file_, line_, column_});
  return static_cast<unsigned>(v);
}
inline int __any_sync(std::uint64_t mask, bool p, MUSAIC_SIMT_SITE) {
  std::uint64_t v = p;
  musaic::simt::exchange(musaic::simt::ExchangeOp::kAny, mask, &v, sizeof v, 0, 1, {file_, line_, column_});
  return v != 0;
}
inline int __all_sync(std::uint64_t mask, bool p, MUSAIC_SIMT_SITE) {
  std::uint64_t v = p;
  musaic::simt::exchange(musaic::simt::ExchangeOp::kAll, mask, &v, sizeof v, 0, 1, {file_, line_, column_});
  return v != 0;
}

inline void __threadfence_block() { musaic::simt::fence(musaic::simt::Scope::kBlock); }
inline void __threadfence() { musaic::simt::fence(musaic::simt::Scope::kDevice); }
inline void __threadfence_system() { musaic::simt::fence(musaic::simt::Scope::kSystem); }
[[noreturn]] inline void __trap(MUSAIC_SIMT_SITE) { musaic::simt::trap("__trap()", {file_, line_, column_}); }

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 32; i += 8) c += static_cast<std::int8_t>(a >> i) * static_cast<std::int8_t>(b >> i);
  return c;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(std::uint64_t{a} * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __ffs(int v) { return __builtin_ffs(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float rsqrtf(float v) { return 1.0f / __builtin_sqrtf(v); }
inline float __int_as_float(int v) { return __builtin_bit_cast(float, v); }
inline int __float_as_int(float v) { return __builtin_bit_cast(int, v); }
template <class T>
inline T __ldg(const T* p) {
  return *p;
}

#include "backends/simt/atomic.h"
#include "backends/simt/launch.h"
