#pragma once

#include "device/args.h"

namespace musaic {

struct SoftmaxArgs {
  RowView out, logits;
  VectorView temperature;  // no data: the scalar
  FloatKind out_dtype, dtype;
  std::int64_t num_rows, size;
  float temperature_scalar;
};

}  // namespace musaic
