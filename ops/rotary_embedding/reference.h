// float64, from the formula.
#pragma once

#include <cstddef>
#include <vector>

namespace musaic::reference {

/// One head, rotated by the cosines and sines of one position; elements past the rotary dimension as they
/// are.
inline std::vector<double> rotary_embedding(std::vector<double> head, const std::vector<double>& cos_sin,
                                            bool is_neox) {
  const std::size_t half = cos_sin.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    double& x = head[is_neox ? i : 2 * i];
    double& y = head[is_neox ? i + half : 2 * i + 1];
    const double c = cos_sin[i], s = cos_sin[half + i], old_x = x;
    x = old_x * c - y * s;
    y = y * c + old_x * s;
  }
  return head;
}

}  // namespace musaic::reference
