#pragma once

#include "device/args.h"

namespace musaic {

/// Where the pieces of one pool lie. Piece (part, token, layer, head) is at
///
///     base + (token / page_size) * page_stride + (token % page_size) * slot_stride + head * head_stride
///
/// with base = bases[part] + layer * layer_stride, or tables[part][layer] where a table is given. All in bytes.
struct KvTransferPool {
  char* bases[2];
  const std::uint64_t* tables[2];
  std::int64_t page_size, page_stride, slot_stride, head_stride, layer_stride;
  std::int64_t num_tokens;  // token indices are below
  const void* indices;
  bool indices_are_64_bit;
  FaultSink fault;
};

struct KvTransferArgs {
  KvTransferPool src, dst;
  std::int64_t num_tokens, piece_bytes;
  std::int32_t num_parts, num_layers, num_heads;  // their product fits an int32
  std::int64_t block_quota, warps_per_block;
  bool indices_on_host;  // the launcher reads them
};

}  // namespace musaic
