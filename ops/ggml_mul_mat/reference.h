// The a8 product twice: its float32 operations one by one in the stated order, and the float64 product with
// the bound of the error.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/ggml_dequantize/reference.h"

namespace musaic::reference {

struct A8Activations {
  std::vector<int> code;  // padded to whole blocks
  std::vector<float> d;
};

inline A8Activations quantize_a8(const std::vector<double>& x, std::int64_t padded) {
  A8Activations a;
  a.code.assign(static_cast<std::size_t>(padded), 0);
  a.d.assign(static_cast<std::size_t>(padded / 32), 0.0f);
  for (std::size_t b = 0; b < a.d.size(); ++b) {
    float largest = 0;
    bool finite = true;
    for (std::size_t i = 32 * b; i < 32 * b + 32 && i < x.size(); ++i) {
      finite = finite && std::isfinite(x[i]);
      largest = std::fmax(largest, static_cast<float>(std::fabs(x[i])));
    }
    if (!finite) {
      a.d[b] = std::nanf("");
    } else if (largest >= 0x1p-100f) {
      a.d[b] = largest / 127.0f;
      const float reciprocal = 1.0f / a.d[b];
      for (std::size_t i = 32 * b; i < 32 * b + 32 && i < x.size(); ++i) {
        const float scaled = static_cast<float>(x[i]) * reciprocal;
        a.code[i] = static_cast<int>(std::round(scaled));  // half away from zero
      }
    }
  }
  return a;
}

/// One element of the result before its rounding to the output's dtype.
inline float dot_a8(const GgmlLayout& layout, const unsigned char* row, const A8Activations& x) {
  const bool minimum = layout.type == GgmlType::kQ4_1 || layout.type == GgmlType::kQ5_1 ||
                       layout.type == GgmlType::kQ4_K || layout.type == GgmlType::kQ5_K;
  const auto blocks = static_cast<std::int64_t>(x.d.size());
  float total = 0;
  for (std::int64_t segment = 0; segment < blocks; segment += 128) {
    float slot[8] = {};
    for (std::int64_t b = segment; b < blocks && b < segment + 128; ++b) {
      std::int64_t dot = 0, sum = 0;
      WeightElement w{};
      for (std::int64_t i = 32 * b; i < 32 * b + 32; ++i) {
        w = weight_element(layout.type, row + i / layout.block_elements * layout.block_bytes,
                           static_cast<int>(i % layout.block_elements));
        const int q = x.code[static_cast<std::size_t>(i)];
        dot += std::int64_t{w.sub_scale} * w.code * q;
        sum += std::int64_t{w.sub_minimum} * q;
      }
      const float d = x.d[static_cast<std::size_t>(b)], weight_d = static_cast<float>(w.scale),
                  weight_m = static_cast<float>(w.minimum);
      float& acc = slot[b % 8];
      if (minimum)
        acc =
            std::fma(d, std::fma(weight_d, static_cast<float>(dot), weight_m * static_cast<float>(sum)), acc);
      else
        acc = std::fma(weight_d * d, static_cast<float>(dot), acc);
    }
    const float part =
        ((slot[0] + slot[1]) + (slot[2] + slot[3])) + ((slot[4] + slot[5]) + (slot[6] + slot[7]));
    total = segment == 0 ? part : total + part;
  }
  return total;
}

/// The library's row sum of fma(w, x, .), from its definition.
inline float dot_plain(const std::vector<double>& w, const std::vector<double>& x) {
  const std::size_t n = w.size(), slots = n <= 2048 ? 256 : 1024;
  float total = 0;
  for (std::size_t segment = 0; segment < n; segment += 8192) {
    std::vector<float> slot(slots, 0.0f);
    for (std::size_t i = segment; i < n && i < segment + 8192; ++i)
      slot[i % slots] = std::fma(static_cast<float>(w[i]), static_cast<float>(x[i]), slot[i % slots]);
    for (std::size_t width = slots / 2; width > 0; width /= 2)
      for (std::size_t s = 0; s < width; ++s) slot[s] = slot[2 * s] + slot[2 * s + 1];
    total = segment == 0 ? slot[0] : total + slot[0];
  }
  return total;
}

struct ExactDot {
  double value, bound;
};

/// sum of w x in float64, and how far quantised activations and float32 sums may be from it.
inline ExactDot exact_dot(const GgmlLayout& layout, const unsigned char* row, const std::vector<double>& x,
                          const A8Activations& a) {
  double value = 0, quantisation = 0, magnitude = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    const WeightElement e =
        weight_element(layout.type, row + index / layout.block_elements * layout.block_bytes,
                       static_cast<int>(index % layout.block_elements));
    const double w = e.value(), d = is_plain(layout) ? 0.0 : static_cast<double>(a.d[i / 32]);
    value += w * x[i];
    quantisation += std::fabs(w) * d * 0.5001;
    // The parts of a block with minimum may cancel, so each counts in full.
    magnitude += (std::fabs(e.scale * e.sub_scale * e.code) + std::fabs(e.minimum * e.sub_minimum)) *
                 (std::fabs(x[i]) + d);
  }
  // Roundings a term passes: at most one for each block of its slot, a few in the block and the tree.
  const double roundings = 16.0 + static_cast<double>(x.size()) / 256.0;
  return {value, quantisation + magnitude * roundings * 0x1p-24};
}

}  // namespace musaic::reference
