// A kernel with a mistake in it, for `musaic tour`.
#pragma once

#include <cstdint>

namespace musaic::cli {

/// Sums rows of n floats on the current simulated target, four rows a block of 128 threads. Its mistake is written beside it.
void planted_row_sums(const float* x, float* sums, int rows, int n);

}  // namespace musaic::cli
