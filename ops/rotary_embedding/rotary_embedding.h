// Rotary position embedding of queries and keys, in place.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Rotates pairs of elements of every head by angles that depend on the token's position. With R the rotary
/// dimension, c[i] = cos_sin_cache[position][i] and s[i] = cos_sin_cache[position][R / 2 + i] for i < R / 2:
///
///     x' = x c[i] - y s[i]
///     y' = y c[i] + x s[i]
///
/// where (x, y) are elements (i, i + R / 2) of the head if is_neox, else (2 i, 2 i + 1). Elements from R on
/// are not touched.
///
/// \param query          [T, H * D] or [T, H, D], or with [B, S] in the place of [T]; float32, float16 or
///                       bfloat16; written; last dimension contiguous, any other strides
/// \param key            as query with heads and strides of its own, query's dtype; written; no tensor: none.
///                       May interleave with query in memory, as slices of packed projections do
/// \param positions      [T] or [B, S], int32 or int64, any strides
/// \param cos_sin_cache  [max_position, R], any of the three dtypes, R even and at most D; rows contiguous,
///                       any stride
/// \param head_size      D
/// \param is_neox        which elements are pairs
///
/// Tier: exact. In float32: x' = fma(x, c, -(y * s)), y' = fma(y, c, x * s), then one rounding to the dtype.
/// Any D and R; no tokens write nothing. A token whose position is outside the cache stays as it was, and the
/// fault is raised by musaic::check or by the next call.
///
/// Source: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
void rotary_embedding(const Tensor& query, const Tensor& key, const Tensor& positions,
                      const Tensor& cos_sin_cache, std::int64_t head_size, bool is_neox, Stream stream = {});

}  // namespace musaic
