// How fast this machine reads memory.
#pragma once

#include <cstddef>
#include <span>

namespace musaic::cli {

/// Bytes a second at which `threads` threads together read `memory`, the best of some passes within about 0.2
/// s. The memory is read only, and should be larger than the processor's caches.
double read_bandwidth(std::span<const std::byte> memory, int threads);

}  // namespace musaic::cli
