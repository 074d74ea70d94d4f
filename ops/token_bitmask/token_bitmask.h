// Forbidding tokens by a bit mask.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// logits[r, v] = -infinity for each token v whose bit in the mask is 0, in each row r = indices[i], or in every row.
///
/// \param logits   [B, V], or [V] for one row; float32, float16 or bfloat16, last dimension contiguous, rows may be strided
/// \param bitmask  [B, W] (at least B rows without indices), or [W]; int32, likewise; token v is bit v % 32 of word v / 32;
///                 W <= ceil(V / 32)
/// \param indices  [N], int32 or int64, any stride: rows of both; a row may be named again; or not given
///
/// Tier: exact. Values of allowed tokens keep their bits, NaN payloads included. Tokens past the last word are not
/// allowed. An index outside both tensors is skipped and recorded as DeviceFault::kIndexOutOfRange with its place as the
/// row.
void apply_token_bitmask_inplace(const Tensor& logits, const Tensor& bitmask, const Tensor& indices = {},
                                 Stream stream = {});

}  // namespace musaic
