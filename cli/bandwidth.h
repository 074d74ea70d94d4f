// How fast this machine reads and copies memory.
#pragma once

#include <cstddef>
#include <span>

namespace musaic::cli {

/// Bytes a second at which `threads` threads together read `memory`, the best of some passes within about 0.2
/// s. The memory is read only, and should be larger than the processor's caches.
double read_bandwidth(std::span<const std::byte> memory, int threads);

/// Bytes read and written in a second by a copy of a buffer far larger than the caches, with so many threads: the best of
/// several.
double copy_bandwidth(int threads);

}  // namespace musaic::cli
