// Weights in the cases of `musaic check`.
#pragma once

#include <cmath>

#include "cli/check/check.h"
#include "ops/ggml_dequantize/reference.h"

namespace musaic::checks {

/// An argument of random blocks.
inline int random_weights(Call& call, const GgmlLayout& layout, std::int64_t blocks) {
  const std::vector<unsigned char> bytes = reference::random_weights(
      layout, blocks, [&] { return call.uniform_int(0, 255); }, [&] { return call.normal(); });
  return call.input(kUInt8, {static_cast<std::int64_t>(bytes.size())},
                    [&](std::int64_t i) { return static_cast<double>(bytes[static_cast<std::size_t>(i)]); });
}

/// Element i of the row whose first block is number `first_block` of the argument.
inline reference::WeightElement weight_element(const Call& call, int argument, const GgmlLayout& layout,
                                               std::int64_t first_block, std::int64_t i) {
  const std::int64_t block = first_block + i / layout.block_elements;
  return reference::weight_element(
      layout.type,
      call.arguments()[static_cast<std::size_t>(argument)].bytes.data() + block * layout.block_bytes,
      static_cast<int>(i % layout.block_elements));
}

/// A value is rounded to float32, then to the dtype.
inline double weight_tolerance(double value, DType dtype) {
  return std::fabs(value) * (epsilon(dtype) + epsilon(kFloat32)) * 1.01 + smallest(dtype);
}

}  // namespace musaic::checks
