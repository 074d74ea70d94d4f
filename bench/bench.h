// What every benchmark shares: traffic, the machine's own limits, inputs past the cache.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "musaic/musaic.h"

namespace musaic::bench {

/// Measured once a run: the best rate of reading a buffer far larger than the caches with all threads, GB/s.
/// This is what weight streaming can reach.
double read_gb_per_s();
/// The same for a copy, counting bytes read plus bytes written.
double copy_gb_per_s();

/// Declares what one iteration moves and computes. Prints GB/s, the share of the copy bandwidth, and Gop/s.
/// \param bytes       bytes that one call must read and write once
/// \param operations  arithmetic operations of one call; 0: not reported
void set_traffic(benchmark::State& state, std::int64_t bytes, std::int64_t operations = 0);

/// Fills a tensor with normal numbers (floats) or uniform bytes (integers) from a fixed seed.
void fill_random(const Tensor& t, std::uint64_t seed);

}  // namespace musaic::bench
