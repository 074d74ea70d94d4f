#pragma once

#include "device/args.h"

namespace musaic {

struct MoeSumArgs {
  RowView out;
  const void* input;
  RowView weights;  // null data: none
  FloatKind dtype;
  std::int64_t num_tokens, topk, hidden_size;
  std::int64_t token_stride, slot_stride;  // of the input, in elements
  float factor;
};

}  // namespace musaic
