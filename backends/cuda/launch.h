// How kernels are launched on NVIDIA GPUs.
#pragma once

#include <string>

#include "primitives.h"

namespace musaic::MUSAIC_TARGET {

using NativeStream = cudaStream_t;
/// What is wrong with the last launch; empty if nothing.
inline std::string launch_error() {
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? "" : std::string("cuda: ") + cudaGetErrorString(error);
}

inline constexpr bool kSmallGroupsExist = true;
constexpr bool has_small_groups() { return true; }

}  // namespace musaic::MUSAIC_TARGET

#include "backends/gpu_launch.h"
