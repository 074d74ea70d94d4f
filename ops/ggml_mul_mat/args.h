#pragma once

#include "device/args.h"
#include "ops/ggml_dequantize/blocks.h"

namespace musaic {

/// Elements that share an activation scale.
inline constexpr std::int64_t kA8Block = 32;
/// Sums of a row: slots, and blocks of a segment.
inline constexpr std::int64_t kA8Slots = 8;
inline constexpr std::int64_t kA8Segment = 128;
/// Bytes that a quantised block takes in the workspace at most: its codes, its scale, three sums.
inline constexpr std::int64_t kA8BlockBytes = 32 + 3 * 4;

/// Blocks of 32 of a padded row of k elements: whole weight blocks.
constexpr std::int64_t a8_blocks(const GgmlLayout& layout, std::int64_t k) {
  return ggml_blocks(layout, k) * (layout.block_elements / kA8Block);
}

/// Blocks in the workspace for a row of `blocks`: repeated until they fill whole groups of eight, for a
/// backend that reads weight rows as one stream of groups.
constexpr std::int64_t a8_stream_blocks(std::int64_t blocks) {
  std::int64_t repeated = blocks;
  while (repeated % 8 != 0) repeated += blocks;
  return repeated;
}

struct GgmlMulMatArgs {
  RowView out, x;
  const std::uint8_t* weight;
  std::uint8_t* workspace;  // null for plain weights
  GgmlLayout layout;
  FloatKind out_dtype, x_dtype;
  std::int64_t num_tokens, k, rows;
  std::int64_t row_bytes;  // of a weight row
};

}  // namespace musaic
