// The formats element by element, in float64, and random weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "ops/ggml_dequantize/blocks.h"
#include "testing/number.h"

namespace musaic::reference {

inline double half_value(const unsigned char* p) { return testing::to_double(p, kFloat16); }

/// What the products need: value = scale * (sub_scale * code) + minimum * sub_minimum, all exact.
struct WeightElement {
  double scale, minimum;
  int sub_scale, sub_minimum, code;
  double value() const { return scale * sub_scale * code + minimum * sub_minimum; }
};

/// Element i of a block.
inline WeightElement weight_element(GgmlType type, const unsigned char* p, int i) {
  const int nibble_at = i % 16, high = i >= 16 ? 4 : 0;
  const auto bit = [](const unsigned char* bits, int n) { return bits[n / 8] >> (n % 8) & 1; };
  switch (type) {
    case GgmlType::kF32: {
      float f;
      std::memcpy(&f, p, 4);
      return {static_cast<double>(f), 0, 1, 0, 1};
    }
    case GgmlType::kF16:
      return {half_value(p), 0, 1, 0, 1};
    case GgmlType::kBF16:
      return {testing::to_double(p, kBFloat16), 0, 1, 0, 1};
    case GgmlType::kQ4_0:
      return {half_value(p), 0, 1, 0, (p[2 + nibble_at] >> high & 15) - 8};
    case GgmlType::kQ4_1:
      return {half_value(p), half_value(p + 2), 1, 1, p[4 + nibble_at] >> high & 15};
    case GgmlType::kQ5_0:
      return {half_value(p), 0, 1, 0, (p[6 + nibble_at] >> high & 15) + 16 * bit(p + 2, i) - 16};
    case GgmlType::kQ5_1:
      return {half_value(p), half_value(p + 2), 1, 1, (p[8 + nibble_at] >> high & 15) + 16 * bit(p + 4, i)};
    case GgmlType::kQ8_0:
      return {half_value(p), 0, 1, 0, static_cast<signed char>(p[2 + i])};
    case GgmlType::kQ4_K:
    case GgmlType::kQ5_K: {
      const unsigned char* s = p + 4;
      const int j = i / 32, l = i % 32;
      int scale, minimum;
      if (j < 4) {
        scale = s[j] & 63;
        minimum = s[j + 4] & 63;
      } else {
        scale = (s[j + 4] & 15) + 16 * (s[j - 4] >> 6);
        minimum = (s[j + 4] >> 4) + 16 * (s[j] >> 6);
      }
      const unsigned char* qs = p + (type == GgmlType::kQ4_K ? 16 : 48);
      int q = j % 2 == 0 ? qs[32 * (j / 2) + l] & 15 : qs[32 * (j / 2) + l] >> 4;
      if (type == GgmlType::kQ5_K) q += 16 * (p[16 + l] >> j & 1);
      return {half_value(p), -half_value(p + 2), scale, minimum, q};
    }
    case GgmlType::kQ6_K: {
      const int h = i / 128, g = i % 128 / 32, l = i % 32;
      const unsigned char ql = p[64 * h + 32 * (g & 1) + l];
      const int low = g < 2 ? ql & 15 : ql >> 4, top = p[128 + 32 * h + l] >> (2 * g) & 3;
      return {half_value(p + 208), 0, static_cast<signed char>(p[192 + i / 16]), 0, low + 16 * top - 32};
    }
  }
  return {};
}

/// Bytes of random blocks: any integers, from byte(); scales and minima finite and of common sizes, from normal().
template <class Byte, class Normal>
std::vector<unsigned char> random_weights(const GgmlLayout& layout, std::int64_t blocks, Byte byte,
                                          Normal normal) {
  std::vector<unsigned char> w(static_cast<std::size_t>(blocks * layout.block_bytes));
  for (unsigned char& b : w) b = static_cast<unsigned char>(byte());
  for (std::int64_t b = 0; b < blocks; ++b) {
    unsigned char* p = w.data() + b * layout.block_bytes;
    const auto put = [&](std::int64_t offset, double v, DType dtype) {
      testing::from_double(p + offset, dtype, v);
    };
    switch (layout.type) {
      case GgmlType::kF32:
        put(0, normal(), kFloat32);
        break;
      case GgmlType::kF16:
        put(0, normal(), kFloat16);
        break;
      case GgmlType::kBF16:
        put(0, normal(), kBFloat16);
        break;
      case GgmlType::kQ6_K:
        put(208, 0.01 * normal(), kFloat16);
        break;
      case GgmlType::kQ4_0:
      case GgmlType::kQ5_0:
      case GgmlType::kQ8_0:
        put(0, 0.1 * normal(), kFloat16);
        break;
      case GgmlType::kQ4_K:
      case GgmlType::kQ5_K:
        put(0, 0.003 * normal(), kFloat16);
        put(2, 0.03 * normal(), kFloat16);
        break;
      case GgmlType::kQ4_1:
      case GgmlType::kQ5_1:
        put(0, 0.1 * normal(), kFloat16);
        put(2, normal(), kFloat16);
    }
  }
  return w;
}

}  // namespace musaic::reference
