// The backends that there are, built or not.
#pragma once

#include "musaic/tensor.h"

namespace musaic {

/// A backend that a build may have: its name, the compiler of its kernels and the option that asks for it (empty: none).
struct KnownBackend {
  const char *name, *compiler, *option;
  DeviceType type;
};
inline constexpr KnownBackend kKnownBackends[] = {{"cpu", "", "", DeviceType::kCpu},
                                                  {"simt", "", "MUSAIC_BUILD_SIMT", DeviceType::kSimt},
                                                  {"cuda", "nvcc", "MUSAIC_CUDA", DeviceType::kCuda},
                                                  {"musa", "mcc", "MUSAIC_MUSA", DeviceType::kMusa},
                                                  {"hip", "hipcc", "", DeviceType::kRocm}};

}  // namespace musaic
