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

}  // namespace musaic
