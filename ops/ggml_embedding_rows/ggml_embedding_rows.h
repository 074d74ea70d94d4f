// Rows of a quantised embedding table.
#pragma once

#include <cstdint>

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Gathers and dequantises rows: out[t] = row ids[t] of the table.
///
/// \param out     [num_tokens, hidden_size] float32, float16 or bfloat16; last dimension contiguous
/// \param weight  uint8, contiguous, any shape: whole rows of ggml_row_bytes(type, hidden_size) bytes, which
///                fixes vocab_size. F32, F16 and BF16 must lie on a multiple of their element's size
/// \param ids     [num_tokens] int32 or int64, contiguous
/// \param type    a format of ggml_row_bytes
///
/// An id outside [0, vocab_size) leaves its row of out as it was and is reported as
/// DeviceFault::kIndexOutOfRange; the other rows are written. Tier: exact, as ggml_dequantize.
void ggml_embedding_rows(const Tensor& out, const Tensor& weight, const Tensor& ids, std::int64_t type,
                         Stream stream = {});

}  // namespace musaic
