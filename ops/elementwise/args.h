#pragma once

#include "device/args.h"

namespace musaic {

struct ElementwiseArgs {
  RowView out, input, bias;  // bias without data: none
  FloatKind dtype;
  std::int64_t num_rows, row_size;
  float scale;
};

}  // namespace musaic
