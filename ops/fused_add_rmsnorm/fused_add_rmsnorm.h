// Residual addition and RMS normalisation in one pass over memory.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Adds a residual and normalises the sum, in place. For every row of length d:
///
///     x        = input + residual
///     residual = x
///     input    = x / sqrt(sum(x^2) / d + eps) * weight
///
/// \param input     [..., d], float32, float16 or bfloat16; read, then overwritten with the normalised rows;
///                  last dimension contiguous; leading dimensions may have any strides that collapse to two
/// \param residual  shape and dtype of `input`, strides of its own; read, then overwritten with the sums; may
///                  not overlap `input`
/// \param weight    [d], contiguous, any of the three dtypes; no tensor: all ones
/// \param eps       added to the mean square, rounded to float32
///
/// Tier: exact. In float32: x = input + residual, rounded once and kept in float32 for all that follows (only
/// the stored residual is rounded to the dtype); s = the library's sum of fma(x, x, .); r = 1 / sqrt(s / d +
/// eps), each operation rounded once; input = (x * r) * weight, then one rounding to the dtype. Any d; zero
/// rows or d = 0 write nothing. A row with a NaN or an infinity gives NaNs in that row alone. With eps = 0 a
/// row of zeros gives NaN.
///
/// Source: Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
void fused_add_rmsnorm(const Tensor& input, const Tensor& residual, const Tensor& weight, double eps = 1e-6,
                       Stream stream = {});

/// As fused_add_rmsnorm with (1 + weight) in the place of weight, the sum formed in float32 (Gemma's
/// convention).
void gemma_fused_add_rmsnorm(const Tensor& input, const Tensor& residual, const Tensor& weight,
                             double eps = 1e-6, Stream stream = {});

}  // namespace musaic
