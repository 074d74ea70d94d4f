// How kernels are launched by <<<>>>, for row.h and gpu.h of the operators. The backend's launch.h gives NativeStream
// and launch_error() before it.
#pragma once

#include <string>

#include "backends/backend.h"
#include "device/device.h"

/// `__shared__ T name`, T also an array type.
#define MUSAIC_SHARED(T, name) __shared__ ::musaic::MUSAIC_TARGET::Same<T> name
#define MUSAIC_DYNAMIC_SHARED(T, name)            \
  extern __shared__ __align__(16) char name##_[]; \
  T* name = reinterpret_cast<T*>(name##_)
/// __launch_bounds__ says it here.
#define MUSAIC_LAUNCH_BOUNDS(max_threads) static_cast<void>(0)
/// kernel<<<grid, block, shared_bytes, stream>>>(arguments...); an Error if it cannot be launched.
#define MUSAIC_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                             \
  do {                                                                                            \
    kernel<<<grid, block, shared_bytes,                                                           \
             static_cast<::musaic::MUSAIC_TARGET::NativeStream>((stream).handle)>>>(__VA_ARGS__); \
    if (const std::string error_ = ::musaic::MUSAIC_TARGET::launch_error(); !error_.empty())      \
      throw ::musaic::Error(#kernel " could not be launched: " + error_);                         \
  } while (false)

namespace musaic::MUSAIC_TARGET {

template <class T>
using Same = T;

}  // namespace musaic::MUSAIC_TARGET

#include "device/row_kernel.h"
