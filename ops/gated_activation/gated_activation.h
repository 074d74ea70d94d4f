// Gated activations: act(gate) * up over the two halves of each row.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// SiLU of the first half of each row, times the second half:
///
///     out[i] = silu(input[i]) * input[d + i],    silu(x) = x / (1 + e^-x)
///
/// \param out    [..., d], input's dtype; may be the very view of either half of `input`, else no overlap
/// \param input  [..., 2 d], float32, float16 or bfloat16; the gate first, then the values that it scales;
///               last dimension contiguous; leading dimensions may have any strides that collapse to two
///
/// Tier: exact. In float32: silu as device/math.h defines it (at most 4 ulp off), one product, then one
/// rounding to the dtype. Any d, no alignment beyond the element's; zero rows or d = 0 write nothing.
/// silu(-infinity) = -0 and silu(infinity) = infinity, so NaN arises only from a NaN, or where a zero meets
/// an infinity in the product.
void silu_and_mul(const Tensor& out, const Tensor& input, Stream stream = {});

/// As silu_and_mul with gelu(x) = x (1 + erf(x / sqrt 2)) / 2, at most 7 ulp off; gelu(-infinity) = -0.
///
/// Source: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
void gelu_and_mul(const Tensor& out, const Tensor& input, Stream stream = {});

/// As silu_and_mul with gelu_tanh(x) = x (1 + tanh(u)) / 2, u = sqrt(2 / pi) (x + 0.044715 x^3), whose
/// relative error is at most 4 ulp for x >= 0 and (5 + 3 |2u|) 2^-24 for x < 0; gelu_tanh(-infinity) = -0.
void gelu_tanh_and_mul(const Tensor& out, const Tensor& input, Stream stream = {});

}  // namespace musaic
