#pragma once

#include "device/args.h"

namespace musaic {

struct SamplingArgs {
  VectorView tokens, valid, indices;
  VectorView seed, offset, subsequence;
  VectorView temperature, top_k, top_p, min_p;  // no data: the scalar
  RowView rows;
  FloatKind dtype;
  std::int64_t num_outputs, num_rows, vocab_size;
  std::int64_t top_k_scalar;
  float temperature_scalar, top_p_scalar, min_p_scalar;
  bool top_k_first;
  FaultSink bad_index;
};

/// What top_k_renorm_probs, top_p_renorm_probs and top_k_mask_logits take.
struct RenormArgs {
  RowView out, rows;
  VectorView top_k, top_p;  // no data: the scalar
  FloatKind dtype;
  std::int64_t num_rows, vocab_size;
  std::int64_t top_k_scalar;
  float top_p_scalar;
};

}  // namespace musaic
