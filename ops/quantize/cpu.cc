#include "backends/cpu/launch.h"

namespace musaic::MUSAIC_TARGET {
namespace {

/// v is not negative.
MUSAIC_FN void raise_max(float* p, float v) {
  std::uint32_t* bits = reinterpret_cast<std::uint32_t*>(p);
  const std::uint32_t wanted = as_bits(v);
  std::uint32_t old = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (old < wanted &&
         !__atomic_compare_exchange_n(bits, &old, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

}  // namespace
}  // namespace musaic::MUSAIC_TARGET

#include "ops/quantize/core.h"
