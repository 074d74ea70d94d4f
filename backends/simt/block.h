// The state of a running block and of its threads ("lanes"). Internal.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/simt/fiber.h"
#include "backends/simt/intrinsic.h"
#include "backends/simt/knowledge.h"
#include "backends/simt/store_buffer.h"
#include "backends/simt/work.h"

namespace musaic::simt {

struct Block;

/// Lanes of one hardware warp, up to 128.
__extension__ typedef unsigned __int128 LaneSet;

/// What a lane waits with at an exchange; lives on the lane's own stack.
struct Request {
  ExchangeOp op;
  std::uint64_t mask;
  void* value;
  unsigned bytes;
  int argument, width;
  Site site;
  const void* return_address;
};

enum class LaneState : std::uint8_t { kFresh, kReady, kAtBarrier, kAtExchange, kSpinning, kExited };

/// A __syncwarp that the lane took part in since the last barrier.
struct WarpSync {
  std::uint32_t time;
  LaneSet lanes;
  bool whole_group;
};

/// What a lane released and acquired by fences; only lanes that use fences or flags have one.
struct LaneOrder {
  Knowledge known;                // acquired
  Knowledge fenced[3];            // what its fences released, by Scope
  Knowledge seen[3];              // read from flags, not acquired yet; by the Scope at which it was released
  Knowledge hinted;               // what flags would have told with every fence in place
  const void* recheck = nullptr;  // a volatile flag that was read after it was looked at
};

struct Lane {
  Context context;
  Stack* stack = nullptr;
  Block* block = nullptr;
  Request* request = nullptr;
  std::uint16_t index = 0, warp = 0, warp_lane = 0;
  LaneState state = LaneState::kFresh;
  std::uint8_t sync_count = 0;
  Site barrier_site{};
  const void* polled = nullptr;
  const void* polled_at = nullptr;  // the line that polls
  std::uint64_t polled_value = 0;
  unsigned polls = 0;  // since the lane did something else
  std::array<WarpSync, 4> syncs{};
  std::unique_ptr<LaneOrder> order;
  ThreadInfo info{};
};

struct SharedRange {
  const void* key;
  std::uint32_t offset, bytes;
};

/// A flag: what its last writer released.
struct FlagRecord {
  Knowledge released[3];
  Knowledge everything;  // with all fences in place
};

struct Block {
  Work* work = nullptr;
  std::uint64_t work_id = 0;
  const DeviceRecord* device = nullptr;
  std::uint64_t linear = 0;
  std::uint32_t slot = 0;
  unsigned lane_count = 0, live = 0, started = 0;
  bool killed = false;

  std::vector<Lane> lanes;
  std::vector<std::uint16_t> start_order;
  std::vector<std::uint16_t> ready;  // from ready_head on
  std::size_t ready_head = 0;
  std::vector<std::uint16_t> spinners;
  int favoured_warp = 0;

  std::vector<std::uint16_t> at_barrier;
  BarrierKind barrier_kind{};
  int barrier_votes = 0, barrier_result = 0;

  std::vector<LaneSet> warp_live, warp_waiting;

  // Time of the block: counts its synchronisations.
  std::uint32_t clock = 1;
  std::uint32_t shared_sync = 1, global_sync = 1;  // accesses before these times precede a barrier
  Knowledge known, fenced[3], seen[3], hinted;     // of all its lanes, by barriers
  std::vector<std::uint16_t> ordered_lanes;        // lanes that have a LaneOrder
  std::vector<std::pair<const void*, FlagRecord>> shared_flags;

  char* shared = nullptr;  // kSharedCapacity bytes
  Cell* shared_cells = nullptr;
  std::vector<SharedRange> shared_ranges;  // the first one is dynamic memory
  std::uint32_t shared_used = 0, static_bytes = 0;

  StoreBuffer stores;

  unsigned ready_count() const { return static_cast<unsigned>(ready.size() - ready_head); }
  void tick() {
    if (clock < Stamp::kMaxTime) ++clock;
  }
};

/// Room for shared variables and the gaps between them.
inline constexpr std::size_t kSharedCapacity = 512 << 10;

}  // namespace musaic::simt
