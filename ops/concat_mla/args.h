#pragma once

#include "device/args.h"

namespace musaic {

/// Rows of `a`, each followed by a row of `b`, in rows of `out`.
struct ConcatArgs {
  RowView out, a, b;
  std::int32_t element_bytes;
  std::int64_t num_rows, a_size, b_size;
};

}  // namespace musaic
