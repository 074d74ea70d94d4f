// Weights of GGUF files as plain numbers, and the sizes of their formats.
#pragma once

#include <cstdint>

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Bytes of a row of `elements` weights in the format `type` (the file format's number): whole blocks, the
/// last one counted in full. All in int64.
///
/// Formats: F32 (0), F16 (1), Q4_0 (2), Q4_1 (3), Q5_0 (6), Q5_1 (7), Q8_0 (8), Q4_K (12), Q5_K (13), Q6_K
/// (14), BF16 (30). Throws Error for any other number, for elements < 0, and if the size exceeds int64.
std::int64_t ggml_row_bytes(std::int64_t type, std::int64_t elements);

/// Dequantisation. Blocks are read in order, and their elements are out's in row-major order.
///
/// \param out     [m, n] float32, float16 or bfloat16, contiguous; all of it is written
/// \param weight  uint8, contiguous, any shape and address: exactly the blocks of m * n elements. F32, F16
///                and BF16 must lie on a multiple of their element's size
/// \param type    a format of ggml_row_bytes
/// \param m       rows of out
/// \param n       columns of out; need not be a multiple of the block
///
/// Tier: exact. Values are computed in float32, where only the addition of a block's minimum rounds, then
/// rounded once to out's dtype. (Other implementations compute in float16, whose range and precision their
/// float32 and bfloat16 results keep.)
void ggml_dequantize(const Tensor& out, const Tensor& weight, std::int64_t type, std::int64_t m,
                     std::int64_t n, Stream stream = {});

}  // namespace musaic
