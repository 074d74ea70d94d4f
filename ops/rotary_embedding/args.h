#pragma once

#include "device/args.h"

namespace musaic {

/// The heads of every token: a token's first head starts at its row, head h at h * head_stride from there.
struct TokenHeads {
  RowView tokens;
  std::int64_t num_heads;
  std::int64_t head_stride;
};

struct RotaryEmbeddingArgs {
  TokenHeads query, key;  // key.num_heads 0: no key
  RowView positions;
  const void* cache;
  bool positions_are_64_bit, is_neox;
  FloatKind dtype, cache_dtype;
  std::int64_t num_tokens, max_position, cache_stride;
  std::int64_t num_pairs;  // half of the rotary dimension
  FaultSink fault;
};

}  // namespace musaic
