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

/// Rows up to this many blocks may be repeated in the workspace until they fill whole groups of eight, for a
/// backend that reads short weight rows as one stream of groups; longer ones are padded to whole groups.
inline constexpr std::int64_t kA8RepeatedBlocks = 32;
constexpr std::int64_t a8_row_blocks(std::int64_t blocks) {
  if (blocks > kA8RepeatedBlocks) return (blocks + 7) / 8 * 8;
  std::int64_t repeated = blocks;
  while (repeated % 8 != 0) repeated += blocks;
  return repeated;
}
/// At least a8_row_blocks of as many blocks or fewer.
constexpr std::int64_t a8_most_row_blocks(std::int64_t blocks) {
  const std::int64_t repeated = 8 * (blocks < kA8RepeatedBlocks ? blocks : kA8RepeatedBlocks);
  const std::int64_t padded = (blocks + 7) / 8 * 8;
  return repeated > padded ? repeated : padded;
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
