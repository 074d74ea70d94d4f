// From the formula, on logical elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace musaic::reference {

/// The cache, [num_pages * page_size, row] in order, after rows [num_tokens, row] went to their slots; slots
/// outside it are left out.
inline std::vector<double> kv_cache_store(std::vector<double> cache, const std::vector<double>& rows,
                                          const std::vector<std::int64_t>& slots, std::size_t row) {
  for (std::size_t t = 0; t < slots.size(); ++t)
    if (slots[t] >= 0 && static_cast<std::size_t>(slots[t]) < cache.size() / row)
      for (std::size_t i = 0; i < row; ++i)
        cache[static_cast<std::size_t>(slots[t]) * row + i] = rows[t * row + i];
  return cache;
}

}  // namespace musaic::reference
