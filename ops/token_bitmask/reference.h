#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace musaic::reference {

/// One row under its mask.
inline std::vector<double> apply_token_bitmask(std::vector<double> logits,
                                               const std::vector<std::uint32_t>& words) {
  for (std::size_t v = 0; v < logits.size(); ++v)
    if (v / 32 >= words.size() || (words[v / 32] >> (v % 32) & 1) == 0)
      logits[v] = -std::numeric_limits<double>::infinity();
  return logits;
}

}  // namespace musaic::reference
