// Number formats in float64, for tests and checks.
#pragma once

#include "musaic/tensor.h"

namespace musaic::testing {

/// The exact value of a stored element, and the nearest-even rounding of a double into a dtype (float64
/// included).
double to_double(const void* element, DType dtype);
void from_double(void* element, DType dtype, double value);
double round_to(DType dtype, double value);
/// Unit roundoff of a floating dtype (half of the spacing at 1) and its smallest subnormal.
double epsilon(DType dtype);
double smallest(DType dtype);

}  // namespace musaic::testing
