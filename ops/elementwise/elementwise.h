// Functions of each element by itself.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

// Tensors are [..., N], float32, float16 or bfloat16, all of one dtype and shape, last dimension contiguous, the other
// dimensions strided at will as far as they collapse to two. The output may be an input's very view.

/// out = x / (1 + e^(-1.702 x)) for x in `input`, in float32, rounded once.
///
/// Tier: exact. The logistic function of the rounded product is at most 3 ulp off; -infinity gives -0.
void gelu_quick(const Tensor& out, const Tensor& input, Stream stream = {});

/// out = input * scale + bias by one fma in float32, rounded once; bias is -0 where not given.
///
/// \param scale  taken as a float32
///
/// Tier: exact.
void fused_mul_add(const Tensor& out, const Tensor& input, const Tensor& bias = {}, double scale = 1.0,
                   Stream stream = {});

}  // namespace musaic
