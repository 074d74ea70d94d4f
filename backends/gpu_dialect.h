// What the compilers for NVIDIA's and Moore Threads' GPUs spell alike: barriers, exchanges and flags. For their
// primitives.h, after MUSAIC_FN.
#pragma once

#include <cstdint>

namespace musaic::MUSAIC_TARGET {

/// Orders all memory between the threads of a block.
MUSAIC_FN void sync_block() { __syncthreads(); }
/// Orders memory between 32 lanes of which all get here.
MUSAIC_FN void sync_warp() { __syncwarp(); }

// Exchanges between the 32 lanes of a logical warp; every lane of the hardware warp must call them. A width of 64 or
// 128 gave wrong lanes on an S4000 [M-S4000-51], so the width is always written and never above 32.

/// What lane (lane xor by) holds.
template <class T>
MUSAIC_FN T exchange_xor(T v, int by) {
  return __shfl_xor_sync(0xffffffffu, v, by, 32);
}
/// What a lane holds.
template <class T>
MUSAIC_FN T exchange_from(T v, int lane) {
  return __shfl_sync(0xffffffffu, v, lane, 32);
}
/// What lane (lane - by) holds; lanes below `by` keep their own.
template <class T>
MUSAIC_FN T exchange_up(T v, int by) {
  return __shfl_up_sync(0xffffffffu, v, by, 32);
}

/// Flags between blocks, devices and the host: a full fence and a volatile access [MC, DE]. The _system
/// atomics sent a MUSA compiler into an endless loop [MC].
MUSAIC_FN void store_release(std::uint32_t* flag, std::uint32_t value) {
  __threadfence_system();
  *static_cast<volatile std::uint32_t*>(flag) = value;
}
MUSAIC_FN std::uint32_t load_acquire(std::uint32_t* flag) {
  const std::uint32_t value = *static_cast<volatile std::uint32_t*>(flag);
  __threadfence_system();
  return value;
}

}  // namespace musaic::MUSAIC_TARGET
