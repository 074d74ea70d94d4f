// Softmax with a temperature over the last dimension.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// out = w / sum(w) with the integer weights w = floor(e^((x - max) / T) * 2^40): the distribution that
/// sampling_from_logits draws from.
///
/// \param out          [B, V], float32, float16 or bfloat16, last dimension contiguous; may be the very same
///                     view as `logits`
/// \param logits       [B, V], any of the three dtypes, last dimension contiguous, rows may be strided;
///                     V <= 2^22
/// \param temperature  float32 [B], any stride: T of each row; no tensor: `temperature_scalar` for all
/// \param temperature_scalar  T, rounded to float32; not NaN
///
/// Tier: exact. In float32: d = x - max, t = d * fl(1 / T), e = the library's exp(t), each rounded once;
/// w = floor(e * 2^40); the sum is exact; the quotient of the two integers is rounded once to out's dtype.
/// Entries below 2^-40 of the largest are 0. T above 2^100 counts as 2^100. T below 2^-126, zero and negative
/// numbers included: 1 at the row's argmax, 0 elsewhere. A row with a NaN or +infinity, or with T = NaN,
/// gives NaNs in that row alone. -infinity has weight 0; a row of -infinity alone gives zeros. Zero rows or V
/// = 0 write nothing.
void softmax(const Tensor& out, const Tensor& logits, const Tensor& temperature = {},
             double temperature_scalar = 1, Stream stream = {});

}  // namespace musaic
