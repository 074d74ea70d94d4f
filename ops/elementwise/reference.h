#pragma once

#include <cmath>

namespace musaic::reference {

inline double gelu_quick(double x) { return x < -1e6 ? -0.0 : x / (1 + std::exp(-1.702 * x)); }

}  // namespace musaic::reference
