// Row programs, and a maximum over all blocks by atomics, whose order does not matter.
#pragma once

#include "backends/backend.h"
#include "device/device.h"

namespace musaic::MUSAIC_TARGET {
namespace {

/// v is not negative, so that its bits have its order.
MUSAIC_FN void raise_max(float* p, float v) {
  atomicMax(reinterpret_cast<unsigned*>(p), static_cast<unsigned>(as_bits(v)));
}

}  // namespace
}  // namespace musaic::MUSAIC_TARGET

#include "ops/quantize/core.h"
