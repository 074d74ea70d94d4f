#pragma once

#include "device/args.h"

namespace musaic {

/// Keys of one split: a block of positions that is reduced on its own before splits are merged.
inline constexpr std::int64_t kAttentionSplit = 256;

/// How the CPU cuts a call, from shapes alone. A tile is some queries of one request times some query heads
/// of one key and value head; its rows are (query, head) pairs that read the same keys and values.
struct PagedAttentionPlan {
  static constexpr std::int64_t kTileRows = 16;

  std::int64_t tile_heads;          // query heads of a tile
  std::int64_t head_chunks;         // tiles that share a kv head
  std::int64_t tile_queries;        // queries of a tile
  std::int64_t k_padded, v_padded;  // head sizes in whole vectors
  std::int64_t workers;
  std::int64_t max_splits;
  bool splits_apart;  // splits of one tile are tasks of their own, merged at the end

  // The workspace, in this order, in bytes.
  std::int64_t state_bytes;    // a byte per request
  std::int64_t scratch_bytes;  // per worker: queries, scores, two outputs per row
  std::int64_t partial_bytes;  // per (token, head, split): sum of values, maximum, sum of weights

  std::int64_t partial_floats() const { return v_padded + 8; }
  std::int64_t workspace_bytes() const { return state_bytes + workers * scratch_bytes + partial_bytes; }
};

/// How a GPU cuts a call, likewise. A tile's rows are again queries times query heads of one key and value head; its
/// splits go to `parts` blocks, split s to block s % parts.
struct PagedAttentionGpuPlan {
  static constexpr std::int64_t kTileRows = 8;

  std::int64_t tile_heads, head_chunks;
  std::int64_t parts;
  std::int64_t max_splits;

  // The workspace, in this order, in bytes.
  std::int64_t state_bytes;  // a byte per request
  std::int64_t
      partial_bytes;  // with several parts, per (token, head, split): maximum, sum of weights, values

  std::int64_t workspace_bytes() const { return state_bytes + partial_bytes; }
};

struct PagedAttentionArgs {
  void* out;
  float* lse;  // null: not wanted
  const void* query;
  const void* k_cache;
  const void* v_cache;
  const std::int32_t* page_table;
  const std::int32_t* seq_lens;
  const std::int32_t* query_starts;  // null: request r owns token r
  FloatKind dtype, cache_dtype;      // of query and out; of the caches

  // Strides in elements.
  std::int64_t out_token_stride, out_head_stride;
  std::int64_t lse_token_stride, lse_head_stride;
  std::int64_t query_token_stride, query_head_stride;
  std::int64_t k_page_stride, k_slot_stride, k_head_stride;
  std::int64_t v_page_stride, v_slot_stride, v_head_stride;
  std::int64_t table_request_stride, table_page_stride;

  std::int64_t num_tokens, num_requests, num_heads, num_kv_heads, k_head_dim, v_head_dim;
  std::int64_t num_pages, page_size, max_pages;
  std::int64_t window;  // 0: all
  float scale, soft_cap;
  bool causal;

  FaultSink page_fault, length_fault, starts_fault;
  void* workspace;
  PagedAttentionPlan plan;
  PagedAttentionGpuPlan gpu_plan;
};

}  // namespace musaic
