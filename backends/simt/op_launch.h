// How kernels of the operators are launched on the executor: MUSAIC_LAUNCH and MUSAIC_SHARED are those of kernel.h.
#pragma once

#include "backends/backend.h"
#include "backends/simt/device.h"
#include "device/device.h"

namespace musaic::MUSAIC_TARGET {

inline constexpr bool kSmallGroupsExist = true;  // on some targets
inline bool has_small_groups() { return simt::current_target().hardware_warp == 32; }

}  // namespace musaic::MUSAIC_TARGET

#include "device/row_kernel.h"
