// float64, from the formula.
#pragma once

#include <cmath>

namespace musaic::reference {

enum class Activation { kSilu, kGelu, kGeluTanh };

/// The argument of the exponential that stands in the denominator: 2 u for gelu_tanh, x for silu.
inline double gelu_tanh_slope(double x) {
  return 2.0 * std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
}

/// Limits are taken at minus infinity, where the formulas would multiply infinity by zero.
inline double activation(Activation kind, double x) {
  if (std::isinf(x) && x < 0) return -0.0;
  switch (kind) {
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kGelu:
      return x * (0.5 * std::erfc(-x * std::sqrt(0.5)));
    case Activation::kGeluTanh:
      return x / (1.0 + std::exp(-gelu_tanh_slope(x)));
  }
  return 0;
}

}  // namespace musaic::reference
