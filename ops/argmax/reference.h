#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace musaic::reference {

/// Value descending, then index ascending; NaNs are no candidates; 0 if nothing is left.
inline std::int64_t argmax(const std::vector<double>& x) {
  std::int64_t best = -1;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!std::isnan(x[i]) && (best < 0 || x[i] > x[static_cast<std::size_t>(best)]))
      best = static_cast<std::int64_t>(i);
  return best < 0 ? 0 : best;
}

}  // namespace musaic::reference
