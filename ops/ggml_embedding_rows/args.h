#pragma once

#include "device/args.h"
#include "ops/ggml_dequantize/blocks.h"

namespace musaic {

struct GgmlEmbeddingRowsArgs {
  RowView out;
  const std::uint8_t* weight;
  const void* ids;
  bool wide_ids;  // int64, else int32
  GgmlLayout layout;
  FloatKind dtype;
  std::int64_t num_tokens, vocab_size, hidden_size, row_bytes;
  FaultSink faults;
};

}  // namespace musaic
