// Quantising to 8 bits with a scale for each token, group of elements, or tensor.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

// A code q stands for q * scale. Codes are int8 (high = 127, low = -128), float8_e4m3fn (448), float8_e4m3fnuz (240),
// float8_e5m2 or float8_e5m2fnuz (57344; low = -high). Conversion clamps to [low, high] and rounds to nearest even. A
// NaN becomes the type's NaN (7f; 80 for the fnuz kinds), in int8 0. The largest size of elements passes over NaNs. An
// infinity makes its scale infinite and its code a NaN, with finite elements 0. All arithmetic is float32, one rounding an
// operation; r = 1 / scale, and x / scale is x * r (with x and r scaled by powers of two where r would overflow); where a
// scale is 0, codes are those of x * 0. Inputs are float32, float16 or bfloat16, last dimension contiguous, the other
// dimensions strided at will as far as they collapse to two.

/// output_s[t] = max |input[t]| / high, output_q[t] = convert(input[t] / output_s[t]).
///
/// \param output_q  [..., K], an 8-bit type, last dimension contiguous
/// \param output_s  float32, one element a row of input, packed, of any shape
/// \param input     [..., K], any K
///
/// Tier: exact.
void per_token_quant_8bit(const Tensor& output_q, const Tensor& output_s, const Tensor& input,
                          Stream stream = {});

/// output_q = convert(input / output_s[0]), where output_s[0] = max |input| / high unless `is_static`.
///
/// \param output_q   [..., K], an 8-bit type, last dimension contiguous
/// \param output_s   [1], float32; read with `is_static`, else written
/// \param input      [..., K]
///
/// Tier: exact.
void per_tensor_quant_8bit(const Tensor& output_q, const Tensor& output_s, const Tensor& input,
                           bool is_static = false, Stream stream = {});

/// With a = max(eps, max |x|) for each group of `group_size` consecutive elements x of a row:
///
///     scale = a / high, output_q = convert(x / scale)
///     with scale_ue8m0: scale = 2^e, the smallest power of two not below a / high, e in [-127, 128]
///     with fuse_silu_and_mul: x = round(round(silu(gate)) * up), rounded to the input's dtype, where a row of the input is
///     H gates, then H factors; silu as in silu_and_mul
///
/// \param output_q           [..., H], an 8-bit type, last dimension contiguous
/// \param output_s           [..., H / group_size], float32, any strides in its last dimension too, so row- and column-major;
///                           or with scale_ue8m0 [..., ceil(H / group_size / 4)], int32: byte g % 4 of word g / 4, the low
///                           one first, is e + 127, the bytes past the last group 0
/// \param input              [..., H], or [..., 2 H] with fuse_silu_and_mul
/// \param masked_m           not given, or [E], int32, with an input of [E, P, ...]: rows from masked_m[i] on of each
///                           input[i] are neither read nor written
/// \param group_size         a divisor of H
/// \param eps                finite, not negative
/// \param min, max           low and high; finite, min <= 0 < max
/// \param truncate_int8      int8 codes are x / scale, the float32 quotient, clamped and cut towards zero; no effect on
///                           floats
///
/// Tier: exact. A masked_m[i] outside 0 ... P leaves the rows of input[i] unwritten and is recorded as DeviceFault::kIndexOutOfRange.
void per_token_group_quant_8bit(const Tensor& output_q, const Tensor& output_s, const Tensor& input,
                                const Tensor& masked_m, std::int64_t group_size, double eps, double min,
                                double max, bool scale_ue8m0 = false, bool fuse_silu_and_mul = false,
                                bool truncate_int8 = false, Stream stream = {});

}  // namespace musaic
