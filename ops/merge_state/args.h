#pragma once

#include "device/args.h"

namespace musaic {

struct MergeStateArgs {
  RowView v_merged, v_a, v_b;  // rows: token * num_heads + head
  RowView s_merged, s_a, s_b;  // rows of one element
  FloatKind merged_dtype, a_dtype, b_dtype;
  std::int64_t num_rows, head_dim;
};

}  // namespace musaic
