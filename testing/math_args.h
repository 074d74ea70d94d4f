// What testing/math_rows.h computes, for its callers.
#pragma once

#include <cstdint>

#include "musaic/stream.h"

namespace musaic {

/// X(index, function)
#define MUSAIC_MATH_FUNCTIONS(X) \
  X(0, exp)                      \
  X(1, log) X(2, tanh) X(3, logistic) X(4, normal_cdf) X(5, silu) X(6, gelu) X(7, gelu_tanh) X(8, sqrt)

struct MathArgs {
  int function;         // index of the above; 9: 1 / x
  std::uint32_t first;  // bits of the first argument
  std::uint32_t step;   // between the bits of one argument and the next
  std::int64_t count;
  float* out;
};

inline constexpr int kMathFunctions = 10;
inline constexpr const char* kMathNames[kMathFunctions] = {
#define MUSAIC_MATH_NAME(index, function) #function,
    MUSAIC_MATH_FUNCTIONS(MUSAIC_MATH_NAME)
#undef MUSAIC_MATH_NAME
        "1/x"};

}  // namespace musaic
