// The CPU's a8 products: quantised activation rows, and tiles of dot products with quantised weights. Here
// for any instruction set; ggml_dot_avx2.h has the fast form.
#pragma once

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include "backends/cpu/ggml_dot_avx2.h"
#else

#include "ops/ggml_mul_mat/core.h"

namespace musaic::MUSAIC_TARGET {

/// One block of 32, `count` of which exist.
template <class T>
MUSAIC_FN void a8_load(const T* x, std::int64_t count, F32x8 v[4]) {
  for (int i = 0; i < 4; ++i) {
    if (count >= 8 * i + 8)
      v[i] = load8(x + 8 * i);
    else if (count > 8 * i)
      v[i] = TailChunk{8 * i, static_cast<int>(count - 8 * i)}.load(x);
    else
      v[i] = F32x8{};
  }
}

MUSAIC_FN std::int32_t a8_max_bits(const F32x8 v[4]) {
  I32x8 m = {};
  for (int i = 0; i < 4; ++i) {
    const I32x8 magnitude = __builtin_bit_cast(I32x8, as_bits(v[i]) & 0x7fffffffu);
    const Mask8 larger = m < magnitude;
    m = (larger & magnitude) | (~larger & m);
  }
  std::int32_t r = m[0];
  for (int i = 1; i < 8; ++i) r = r < m[i] ? m[i] : r;
  return r;
}

template <class T>
inline void a8_quantize(const T* x, std::int64_t k, std::int64_t blocks, std::uint8_t* workspace) {
  const A8Row row = a8_row(workspace, blocks);
  for (std::int64_t b = 0; b < blocks; ++b) {
    F32x8 v[4];
    a8_load(x + 32 * b, k - 32 * b, v);
    const A8Scale scale = a8_scale(a8_max_bits(v));
    std::int32_t sum = 0;
    for (int i = 0; i < 4; ++i) {
      const I32x8 q = scale.codes ? a8_codes(v[i], scale.reciprocal) : I32x8{};
      for (int j = 0; j < 8; ++j) {
        row.code[32 * b + 8 * i + j] = static_cast<std::int8_t>(q[j]);
        sum += q[j];
      }
    }
    row.d[b] = scale.d;
    row.sum[b] = sum;
  }
}

/// Dot products of `rows` weight rows with `tokens` quantised rows, tile[token * tile_stride + row].
template <class Block>
inline void a8_tile(const std::uint8_t* weight, std::int64_t row_bytes, std::int64_t rows,
                    std::uint8_t* workspace, std::int64_t token_bytes, std::int64_t tokens,
                    std::int64_t blocks, float* tile, std::int64_t tile_stride) {
  constexpr int kSub = Block::kSub;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t t = 0; t < tokens; ++t) {
      const A8Row x = a8_row(workspace + t * token_bytes, blocks);
      const std::uint8_t* p = weight + r * row_bytes;
      float total = 0.0f;
      F32x8 slots = {};
      for (std::int64_t b = 0; b < blocks; b += kSub, p += Block::kBytes) {
        const GgmlCodes<Block> c(p);
        for (int j = 0; j < kSub; ++j) {
          std::int32_t half[2] = {0, 0};
          for (int i = 0; i < 32; ++i) half[i / 16] += c.code[32 * j + i] * x.code[32 * (b + j) + i];
          const int s = static_cast<int>((b + j) % kA8Slots);
          slots[s] = a8_add<Block>(slots[s], c.d, c.m, x.d[b + j],
                                   c.scale[2 * j] * half[0] + c.scale[2 * j + 1] * half[1],
                                   c.minimum[j] * x.sum[b + j]);
        }
        const std::int64_t done = b + kSub;
        if (done % kA8Segment == 0 || done == blocks) {
          const float part = tree_sum(slots);
          total = done <= kA8Segment ? part : total + part;
          slots = F32x8{};
        }
      }
      tile[t * tile_stride + r] = total;
    }
}

}  // namespace musaic::MUSAIC_TARGET

#endif
