#pragma once

#include "device/args.h"

namespace musaic {

struct TokenBitmaskArgs {
  void* logits;
  std::int64_t logits_stride;  // of rows, in elements
  const std::int32_t* mask;
  std::int64_t mask_stride;
  VectorView indices;  // null data: row i is row i
  FloatKind dtype;
  std::int64_t num_entries, num_rows, vocab_size, num_words;
  FaultSink bad_index;
};

}  // namespace musaic
