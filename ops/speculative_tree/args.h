#pragma once

#include "device/args.h"

namespace musaic {

/// A packed array of int32 or int64.
struct IntegerArray {
  void* data = nullptr;
  std::int32_t bytes = 0;
};

/// First child and next sibling of each node, [batch_size, num_nodes] each.
struct TreeLinks {
  IntegerArray retrive_index, next_token, next_sibling;
};

struct BuildTreeArgs {
  IntegerArray parents, selected, seq_lens, positions;
  TreeLinks links;
  unsigned char* mask;
  std::int64_t mask_bytes;
  std::int64_t batch_size, num_nodes, parents_per_request, topk;
  std::int32_t mask_mode;
  FaultSink bad_selected, bad_seq_len;
};

struct ReconstructTreeArgs {
  const unsigned char* mask;
  IntegerArray seq_lens, positions;
  TreeLinks links;
  std::int64_t batch_size, num_nodes;
};

struct VerifyTreeArgs {
  IntegerArray predicts, accept_index, accept_token_num, candidates;
  TreeLinks links;
  IntegerArray target_predict;
  std::int64_t batch_size, num_nodes, num_predicts, num_accepted;
  FaultSink bad_index, bad_token_link, bad_sibling_link;
};

struct SampleTreeArgs {
  VerifyTreeArgs tree;  // target_predict is not used
  const float* uniform;
  const float* uniform_final;
  const void* target;
  void* draft;  // null: nothing to subtract
  FloatKind dtype;
  std::int64_t vocab_size;
  float threshold_single, threshold_acc;
  bool mark_rejected;
};

struct PackBitsArgs {
  const unsigned char* x;
  IntegerArray input_indptr, output_indptr;
  unsigned char* y;
  std::int64_t batch_size, x_size, y_size;
  FaultSink bad_input, bad_output;
};

}  // namespace musaic
