#pragma once

#include "device/args.h"

namespace musaic {

struct GatedActivationArgs {
  RowView out, input;
  FloatKind dtype;
  std::int64_t num_rows, hidden_size;  // hidden_size: of out; input's rows are twice as long
};

}  // namespace musaic
