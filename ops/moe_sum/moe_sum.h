// Adding up what a token's experts gave.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// out[t] = input[t, 0] + input[t, 1] + ... + input[t, K - 1], added from the left in float32 and rounded once.
///
/// \param out    [T, H], float32, float16 or bfloat16, last dimension contiguous, rows may be strided; may be the view
///               input[:, 0, :]
/// \param input  [T, K, H], out's dtype, last dimension contiguous, any other strides
///
/// Tier: exact. K = 0 gives 0.
void moe_sum(const Tensor& out, const Tensor& input, Stream stream = {});

/// out[t] = routed_scaling_factor * (w[t, 0] input[t, 0] + ... + w[t, K - 1] input[t, K - 1]) in float32, rounded once:
/// the first product, then one fma a slot in rising order, then the factor. Without weights as moe_sum, then the factor.
///
/// \param out, input             as moe_sum
/// \param topk_weights           [T, K], float32, rows may be strided; or not given
/// \param routed_scaling_factor  taken as a float32
///
/// Tier: exact.
void moe_sum_reduce(const Tensor& out, const Tensor& input, const Tensor& topk_weights = {},
                    double routed_scaling_factor = 1.0, Stream stream = {});

}  // namespace musaic
