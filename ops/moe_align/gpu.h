// A counting sort that keeps the order. Ids are cut into tiles, each the work of 32 lanes: tiles count, one block adds
// up what lies before each slot and tile, tiles place. Few ids are one launch of one block.
#pragma once

#include "backends/backend.h"
#include "ops/moe_align/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kTileThreads = 128;
inline constexpr int kScanThreads = 512;

/// The caller's place among all threads that share the work.
struct Worker {
  int lane;
  std::int64_t warp, warps;
};
MUSAIC_FN Worker this_worker() {
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t per_block = blockDim.x / 32;
  return {thread % 32, std::int64_t{blockIdx.x} * per_block + thread / 32, per_block * gridDim.x};
}

/// Counts a tile; the block's tiles are cleared first. Tiles past the last count nothing.
MUSAIC_FN void count_tile(const MoeAlignArgs& a, const Worker& w) {
  std::int32_t* counts = a.counts + w.warp * a.num_slots;
  const bool exists = w.warp < a.num_tiles;
  for (std::int64_t s = w.lane; exists && s < a.num_slots; s += 32) counts[s] = 0;
  sync_block();
  const std::int64_t begin = w.warp * a.tile_size;
  for (std::int64_t i = begin + w.lane; exists && i < begin + a.tile_size && i < a.num_ids; i += 32) {
    const std::int64_t id = id_at(a, i), slot = slot_of(a, id);
    if (slot >= 0)
      atomicAdd(counts + slot, 1);
    else if (is_bad(a, id))
      raise_fault(a.bad_id, DeviceFault::kIndexOutOfRange, i, id);
  }
}

/// Where each slot begins and ends, and where each tile puts its first id of a slot. One block.
MUSAIC_FN void scan_slots(const MoeAlignArgs& a) {
  MUSAIC_SHARED(std::int64_t[kScanThreads / 32], totals);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32,
            warps = static_cast<int>(blockDim.x) / 32;
  std::int64_t before = 0;
  for (std::int64_t first = 0; first < a.num_slots; first += blockDim.x) {
    const std::int64_t s = first + thread;
    const bool exists = s < a.num_slots;
    std::int64_t count = 0;
    for (std::int64_t t = 0; exists && t < a.num_tiles; ++t) count += a.counts[t * a.num_slots + s];
    const std::int64_t size = padded(a, count);
    std::int64_t sum = size;
    for (int by = 1; by < 32; by *= 2) {
      const std::int64_t other = exchange_up(sum, by);
      sum += lane >= by ? other : 0;
    }
    sync_shared();  // the totals before have been read
    if (lane == 31) totals[warp] = sum;
    sync_shared();
    std::int64_t start = before + sum - size;
    for (int other = 0; other < warps; ++other) {
      start += other < warp ? totals[other] : 0;
      before += totals[other];
    }
    if (!exists) continue;
    a.starts[s] = static_cast<std::int32_t>(start);
    a.ends[s] = static_cast<std::int32_t>(start + count);
    for (std::int64_t t = 0; t < a.num_tiles; ++t) {
      std::int32_t& at = a.counts[t * a.num_slots + s];
      const std::int32_t here = at;
      at = static_cast<std::int32_t>(start);
      start += here;
    }
  }
  if (thread == 0) {
    a.starts[a.num_slots] = static_cast<std::int32_t>(before);
    *a.num_tokens_post_pad = static_cast<std::int32_t>(before);
  }
}

/// Puts a tile's ids where they belong, 32 at a time.
MUSAIC_FN void place_tile(const MoeAlignArgs& a, const Worker& w) {
  const bool exists = w.warp < a.num_tiles;
  std::int32_t* next = a.counts + (exists ? w.warp : 0) * a.num_slots;
  for (std::int64_t done = 0; done < a.tile_size; done += 32) {
    const std::int64_t i = w.warp * a.tile_size + done + w.lane;
    const int slot = exists && i < a.num_ids ? static_cast<int>(slot_of(a, id_at(a, i))) : -1;
    int rank = 0, count = 0;  // among the equal ones of the 32
    for (int lane = 0; lane < 32; ++lane) {
      const bool is_equal = exchange_from(slot, lane) == slot;
      rank += is_equal && lane < w.lane ? 1 : 0;
      count += is_equal ? 1 : 0;
    }
    const std::int32_t at = slot >= 0 ? next[slot] : 0;
    if (slot >= 0) a.sorted_token_ids[at + rank] = static_cast<std::int32_t>(i);
    sync_warp();  // all have read where the next one goes
    if (slot >= 0 && rank == count - 1) next[slot] = at + count;
    sync_warp();
  }
}

/// Names the blocks' experts and fills what holds no id.
MUSAIC_FN void finish_slots(const MoeAlignArgs& a, const Worker& w) {
  const auto filler = static_cast<std::int32_t>(a.num_ids);
  for (std::int64_t s = w.warp; s < a.num_slots; s += w.warps) {
    const std::int64_t begin = a.starts[s], end = a.starts[s + 1];
    for (std::int64_t b = begin / a.block_size + w.lane; b < end / a.block_size; b += 32)
      a.expert_ids[b] = static_cast<std::int32_t>(s - 1);
    for (std::int64_t p = a.ends[s] + w.lane; a.pad && p < end; p += 32) a.sorted_token_ids[p] = filler;
  }
  for (std::int64_t p = a.starts[a.num_slots] + 32 * w.warp + w.lane; a.pad && p < a.sorted_size;
       p += 32 * w.warps)
    a.sorted_token_ids[p] = filler;
}

__global__ void __launch_bounds__(kScanThreads) align_in_one_block_kernel(const MoeAlignArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kScanThreads);
  const Worker w = this_worker();
  count_tile(a, w);
  sync_block();
  scan_slots(a);
  sync_block();
  finish_slots(a, w);
  place_tile(a, w);
}

__global__ void __launch_bounds__(kTileThreads) align_count_kernel(const MoeAlignArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kTileThreads);
  count_tile(a, this_worker());
}

__global__ void __launch_bounds__(kScanThreads) align_scan_kernel(const MoeAlignArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kScanThreads);
  scan_slots(a);
}

__global__ void __launch_bounds__(kTileThreads) align_place_kernel(const MoeAlignArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kTileThreads);
  const Worker w = this_worker();
  finish_slots(a, w);
  place_tile(a, w);
}

}  // namespace

void moe_align_block_size(const MoeAlignArgs& a, Stream stream) {
  if (moe_align_plan(a.num_ids).one_block) {
    MUSAIC_LAUNCH(align_in_one_block_kernel, 1, kScanThreads, 0, stream, a);
    return;
  }
  const unsigned blocks = blocks_for(a.num_tiles, kTileThreads / 32);
  MUSAIC_LAUNCH(align_count_kernel, blocks, kTileThreads, 0, stream, a);
  MUSAIC_LAUNCH(align_scan_kernel, 1, kScanThreads, 0, stream, a);
  MUSAIC_LAUNCH(align_place_kernel, blocks, kTileThreads, 0, stream, a);
}

}  // namespace musaic::MUSAIC_TARGET
