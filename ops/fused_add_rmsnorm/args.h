#pragma once

#include "device/args.h"

namespace musaic {

struct FusedAddRmsnormArgs {
  RowView input, residual;
  const void* weight;  // null: ones
  FloatKind dtype, weight_dtype;
  std::int64_t num_rows, hidden_size;
  float eps;
  float weight_offset;  // 0, or 1 for Gemma's convention
};

}  // namespace musaic
