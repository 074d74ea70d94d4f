// Index of the largest entry of each row.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// out[b] = the first index of the largest number in row b.
///
/// \param out    [B], int32 or int64
/// \param input  [B, V], float32, float16 or bfloat16, last dimension contiguous, rows may be strided; V >=
///               1, and V < 2^31 where `out` is int32
///
/// Tier: exact. The order is value descending, then index ascending; -0 equals +0, -infinity is the smallest
/// number. A NaN is no candidate: the result is the largest of the others, and 0 in a row of NaNs alone. B =
/// 0 writes nothing, whatever V.
void argmax(const Tensor& out, const Tensor& input, Stream stream = {});

}  // namespace musaic
