#pragma once

#include "device/args.h"

namespace musaic {

struct ArgmaxArgs {
  VectorView out;
  RowView input;
  FloatKind dtype;
  std::int64_t num_rows, size;
};

}  // namespace musaic
