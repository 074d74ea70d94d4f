// Products with quantised weights, the activations quantised to 8 bits ("a8").
#pragma once

#include <cstdint>

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Matrix product out[t, r] = sum over k of x[t, k] * W[r, k], W in one of the formats of ggml_row_bytes.
///
/// \param out     [..., row] float32, float16 or bfloat16 (also another than x's); last dimension contiguous
/// \param weight  uint8, contiguous, any shape: row rows of ggml_row_bytes(type, K) bytes, at any address;
///                F32, F16 and BF16 on a multiple of their element's size. Nothing beyond is read
/// \param x       [..., K] float32, float16 or bfloat16; last dimension contiguous, leading dimensions as
///                out's; any K
/// \param type    a format of ggml_row_bytes
/// \param row     rows of W
/// \param workspace  ggml_mul_mat_a8_workspace_bytes(product of x's leading sizes, K) bytes on a multiple of
///                   64; not needed for F32, F16 and BF16
///
/// Tier: exact, and a row of x gives the same bits alone and among others.
///
/// Quantised formats. x is widened to float32 and padded with zeros to whole weight blocks. Each 32 elements
/// have the scale d = max|x| / 127 and the codes q = trunc(x * (1 / d) + copysign(0x1.fffffep-2, x)), that
/// is, rounded half away from zero; where max|x| < 2^-100, d = 0 and q = 0; where an element is a NaN or an
/// infinity, d = NaN and q = 0. All these operations are in float32, each rounded once. With the weight's
/// integers w (the format's offset taken off where it has no minimum), sub-scales c and sub-minima u (1 for
/// blocks of 32), the exact integers of block b are
///
///     I_b = sum of c * w * q over its 32 elements,      J_b = u * (sum of q),
///
/// and with the float16 factors D (scale) and M (minimum, negated for Q4_K and Q5_K) in float32 it adds
///
///     acc = fma(D * d, float(I_b), acc)                        formats without minimum
///     acc = fma(d, fma(D, float(I_b), M * float(J_b)), acc)    formats with minimum
///
/// Blocks are summed in segments of 128 (4096 elements): slot s of eight starts at +0 and takes the segment's
/// blocks b = s (mod 8) in rising order; then the tree of adjacent pairs ((0+1)+(2+3))+((4+5)+(6+7)). Segment
/// sums are added left to right, and the result is rounded once to out's dtype. The error against exact
/// activations is at most sum |W[r, k]| * d / 2 plus rounding. A NaN or an infinity in a row of x gives NaNs
/// in that row of out alone.
///
/// F32, F16, BF16: activations are not quantised; the library's row sum of fma(W, x, .).
///
/// K = 0 writes zeros. The sizes that the call cannot have (row * bytes of a row beyond the weight) are
/// errors.
void ggml_mul_mat_a8(const Tensor& out, const Tensor& weight, const Tensor& x, std::int64_t type,
                     std::int64_t row, Stream stream = {}, Workspace workspace = {});

/// The same function, by the name that callers use for few rows of x.
void ggml_mul_mat_vec_a8(const Tensor& out, const Tensor& weight, const Tensor& x, std::int64_t type,
                         std::int64_t row, Stream stream = {}, Workspace workspace = {});

/// Workspace of both for M rows of K elements, whatever the format; enough for fewer rows or elements too.
/// Throws for sizes below zero or beyond int64.
std::int64_t ggml_mul_mat_a8_workspace_bytes(std::int64_t M, std::int64_t K);

}  // namespace musaic
