#pragma once

#include "device/args.h"

namespace musaic {

/// One description for all routers; moe_routing.h has the formulas.
struct MoeRoutingArgs {
  RowView weights, ids, input;
  const void* bias;  // null: none
  FloatKind dtype, bias_dtype;
  std::int32_t id_bytes;
  bool softmax;       // else the logistic function of each logit
  bool round_scores;  // scores and biased scores are rounded to the input's dtype
  bool renormalize;   // over the routed experts
  float soft_cap;     // 0: none
  float scale;        // of every routed weight
  float shared_weight;
  std::int64_t num_tokens, num_experts;
  std::int64_t num_routed, num_shared;   // slots of a row
  std::int64_t num_groups, kept_groups;  // 1 and 1: no groups
};

}  // namespace musaic
