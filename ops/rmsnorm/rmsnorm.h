// RMS normalisation over the last dimension.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Root-mean-square normalisation. For every row x of length d:
///
///     out = x / sqrt(sum(x^2) / d + eps) * weight
///
/// \param out     [..., d], input's dtype; may be the very same view as `input`
/// \param input   [..., d], float32, float16 or bfloat16; last dimension contiguous; leading dimensions may
///                have any strides that collapse to two
/// \param weight  [d], contiguous, any of the three dtypes; no tensor: all ones
/// \param eps     added to the mean square, rounded to float32
///
/// Tier: exact. In float32: s = the library's sum of fma(x, x, .); r = 1 / sqrt(s / d + eps), each operation
/// rounded once; out = (x * r) * weight, then one rounding to the dtype. Any d; zero rows or d = 0 write
/// nothing. A row with a NaN or an infinity gives NaNs in that row alone. With eps = 0 a row of zeros gives
/// NaN.
///
/// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
void rmsnorm(const Tensor& out, const Tensor& input, const Tensor& weight, double eps = 1e-6,
             Stream stream = {});

/// As rmsnorm with (1 + weight) in the place of weight, the sum formed in float32 (Gemma's convention).
void gemma_rmsnorm(const Tensor& out, const Tensor& input, const Tensor& weight, double eps = 1e-6,
                   Stream stream = {});

}  // namespace musaic
