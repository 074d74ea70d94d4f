#pragma once

#include "device/args.h"

namespace musaic {

/// The 8-bit types that codes may have.
enum class CodeKind : std::int32_t {
  kSigned,
  kFiniteE4M3,
  kUnsignedZeroE4M3,
  kStandardE5M2,
  kUnsignedZeroE5M2
};

struct QuantizeArgs {
  RowView codes, input;
  RowView scales;                   // rows of groups; not used per tensor
  std::int64_t scale_group_stride;  // elements between groups, or between words of four
  float* tensor_scale;              // per tensor alone
  FloatKind dtype;
  CodeKind kind;
  std::int64_t num_rows, row_size, group_size, num_groups;  // groups of a row
  float eps, low, high;
  bool power_of_two;             // scales
  bool packed_scales;            // exponent bytes, four a word
  bool silu_and_mul;             // the input's rows are gates, then factors
  bool truncate;                 // int8 towards zero
  bool scale_is_given;           // per tensor
  const std::int32_t* masked_m;  // null: all rows
  std::int64_t rows_per_expert;
  FaultSink bad_mask;
};

}  // namespace musaic
