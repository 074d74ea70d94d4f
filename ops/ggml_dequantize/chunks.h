// Eight values of a row of weights at a time, as a thread of a GPU takes them.
#pragma once

#include "device/device.h"
#include "ops/ggml_dequantize/codes.h"

namespace musaic::MUSAIC_TARGET {

/// Values 8 c to 8 c + 7 of a block.
template <class Block, int kAlign>
MUSAIC_FN F32x8 chunk_values(const std::uint8_t* p, int c) {
  const float d = Block::template d<kAlign>(p) * static_cast<float>(Block::scale(p, c / 2));
  float m = 0.0f;
  if constexpr (Block::kMinimum)
    m = Block::template m<kAlign>(p) * static_cast<float>(Block::minimum(p, c / 4));
  const std::uint32_t low = Block::template word<kAlign>(p, 2 * c),
                      high = Block::template word<kAlign>(p, 2 * c + 1);
  F32x8 v = {};
  for (int i = 0; i < 4; ++i) {
    v[i] = value_of<Block>(code_in(low, i), d, m);
    v[i + 4] = value_of<Block>(code_in(high, i), d, m);
  }
  return v;
}

/// Values 8 c to 8 c + 7 of a row of n elements whose first block is at p, stored at their place in `out`.
MUSAIC_FN void store_row_values(GgmlType type, const std::uint8_t* p, std::int64_t c, std::int64_t n,
                                void* out, FloatKind dtype) {
  const auto put = [&](auto chunk) {
    F32x8 v = {};
    if (type == GgmlType::kF32) v = chunk.load(reinterpret_cast<const float*>(p));
    if (type == GgmlType::kF16) v = chunk.load(reinterpret_cast<const Half*>(p));
    if (type == GgmlType::kBF16) v = chunk.load(reinterpret_cast<const BFloat16*>(p));
    for_block_type(type, [&](auto* block) {
      using Block = std::remove_pointer_t<decltype(block)>;
      constexpr int kChunks = 4 * Block::kSub;
      const std::uint8_t* at = p + c / kChunks * Block::kBytes;
      const auto i = static_cast<int>(c % kChunks);
      if (reinterpret_cast<std::uintptr_t>(at) % Block::kBestAlign == 0)
        v = chunk_values<Block, Block::kBestAlign>(at, i);
      else
        v = chunk_values<Block, 1>(at, i);
    });
    if (dtype == FloatKind::kF32) chunk.store(static_cast<float*>(out), v);
    if (dtype == FloatKind::kF16) chunk.store(static_cast<Half*>(out), v);
    if (dtype == FloatKind::kBF16) chunk.store(static_cast<BFloat16*>(out), v);
  };
  if (8 * c + 8 <= n)
    put(FullChunk{8 * c});
  else
    put(TailChunk{8 * c, static_cast<int>(n - 8 * c)});
}

}  // namespace musaic::MUSAIC_TARGET
