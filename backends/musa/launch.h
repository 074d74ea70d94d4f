// How kernels are launched on Moore Threads GPUs.
#pragma once

#include <string>

#include "primitives.h"

namespace musaic::MUSAIC_TARGET {

using NativeStream = musaStream_t;
/// What is wrong with the last launch; empty if nothing.
inline std::string launch_error() {
  const musaError_t error = musaGetLastError();
  return error == musaSuccess ? "" : std::string("musa: ") + musaGetErrorString(error);
}

inline constexpr bool kSmallGroupsExist = kHardwareWarp == 32;
constexpr bool has_small_groups() { return kSmallGroupsExist; }

}  // namespace musaic::MUSAIC_TARGET

#include "backends/gpu_launch.h"

/// Instantiates a program's kernels explicitly: mcc has dropped the device code of template kernels that only
/// a helper launched [M-THR].
#if MUSAIC_MUSA_HARDWARE_WARP == 32
#define MUSAIC_ROW_KERNELS(...)                                                           \
  template __global__ void rows_kernel<32, __VA_ARGS__>(const __VA_ARGS__, std::int64_t); \
  template __global__ void rows_kernel<128, __VA_ARGS__>(const __VA_ARGS__, std::int64_t);
#else
#define MUSAIC_ROW_KERNELS(...) \
  template __global__ void rows_kernel<128, __VA_ARGS__>(const __VA_ARGS__, std::int64_t);
#endif
