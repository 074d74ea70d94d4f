#pragma once

#include "device/args.h"

namespace musaic {

struct MoeAlignArgs {
  const void* ids;
  std::int32_t id_bytes;  // 1: see ids_are_unsigned
  bool ids_are_unsigned;
  std::int32_t* sorted_token_ids;
  std::int32_t* expert_ids;
  std::int32_t* num_tokens_post_pad;
  std::int32_t* counts;  // [num_tiles, num_slots]: occurrences, then where the next one goes
  std::int32_t* starts;  // [num_slots + 1]: of each slot in sorted_token_ids
  std::int32_t* ends;    // [num_slots]: of its tokens
  std::int64_t num_ids, num_slots, block_size, sorted_size;
  std::int64_t num_tiles, tile_size;  // a tile is a run of ids that 32 lanes take in order
  bool pad, drop_negative;
  FaultSink bad_id;
};

/// How ids are cut into tiles.
struct MoeAlignPlan {
  std::int64_t num_tiles, tile_size;
  bool one_block;  // of a GPU
};
constexpr MoeAlignPlan moe_align_plan(std::int64_t num_ids) {
  constexpr std::int64_t kSmallTiles = 16, kMostTiles = 128, kLeastSize = 512;
  const bool one_block = num_ids <= 4096;
  std::int64_t size =
      (num_ids + (one_block ? kSmallTiles : kMostTiles) - 1) / (one_block ? kSmallTiles : kMostTiles);
  if (!one_block && size < kLeastSize) size = kLeastSize;
  size = (size + 31) / 32 * 32;
  return {one_block ? kSmallTiles : (num_ids + size - 1) / size, size, one_block};
}

}  // namespace musaic
