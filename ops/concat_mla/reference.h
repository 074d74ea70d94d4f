#pragma once

#include <cstddef>
#include <vector>

namespace musaic::reference {

/// Rows of a [heads, a_size] each followed by its row of b, or by b's only one.
template <class T>
std::vector<T> concat(const std::vector<T>& a, std::size_t a_size, const std::vector<T>& b,
                      std::size_t b_size, std::size_t rows, std::size_t heads_of_b) {
  std::vector<T> out;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < a_size; ++i) out.push_back(a[r * a_size + i]);
    for (std::size_t i = 0; i < b_size; ++i) out.push_back(b[r / heads_of_b * b_size + i]);
  }
  return out;
}

}  // namespace musaic::reference
