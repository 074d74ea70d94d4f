#include "backends/simt/order.h"

#include <mutex>
#include <unordered_map>

#include "backends/simt/worker.h"

namespace musaic::simt {
namespace {

struct Shard {
  std::mutex mutex;
  std::unordered_map<const void*, FlagRecord> flags;
};
Shard shards[64];

Shard& shard_of(const void* flag) { return shards[reinterpret_cast<std::uintptr_t>(flag) / 4 % 64]; }

bool is_shared(const Block& block, const void* p) {
  const auto* a = static_cast<const char*>(p);
  return a >= block.shared && a < block.shared + kSharedCapacity;
}

FlagRecord& shared_flag(Block& block, const void* flag) {
  for (auto& entry : block.shared_flags)
    if (entry.first == flag) return entry.second;
  block.shared_flags.emplace_back(flag, FlagRecord{});
  return block.shared_flags.back().second;
}

template <class F>
void with_flag(Block& block, const void* flag, F f) {
  if (is_shared(block, flag)) {
    f(shared_flag(block, flag));
    return;
  }
  Shard& s = shard_of(flag);
  s.mutex.lock();
  f(s.flags[flag]);
  s.mutex.unlock();
}

/// How far apart a run and the block are: the smallest scope that joins them.
Scope distance(const Block& block, std::uint32_t slot) {
  if (slot == block.slot) return Scope::kBlock;
  if (slot <= kSharedSlot) return Scope::kSystem;
  return slot_info(slot).work->device == block.work->info->device ? Scope::kDevice : Scope::kSystem;
}

/// Everything that precedes the lane's next action: its own writes, those before barriers, those it learnt.
void add_all_before(Knowledge& k, const Lane& lane) {
  const Block& b = *lane.block;
  k.add(b.slot, b.global_sync, lane.index, b.clock + 1);
  for (int i = 0; i < lane.sync_count; ++i)
    for (int other = 0; other < b.device->hardware_warp; ++other)
      if (lane.syncs[static_cast<std::size_t>(i)].lanes >> other & 1)
        k.add(b.slot, 0, static_cast<std::uint32_t>(lane.warp * b.device->hardware_warp + other),
              lane.syncs[static_cast<std::size_t>(i)].time);
  k.join(b.known);
  if (lane.order) k.join(lane.order->known);
}

}  // namespace

LaneOrder& order_of(Lane& lane) {
  if (!lane.order) {
    lane.order = std::make_unique<LaneOrder>();
    lane.block->ordered_lanes.push_back(lane.index);
  }
  return *lane.order;
}

void fence(Scope scope) {
  Worker* w = this_worker;
  if (w == nullptr || w->lane == nullptr) return;
  const InExecutor guard;
  Lane& lane = *w->lane;
  Block& b = *lane.block;
  LaneOrder& o = order_of(lane);
  if (o.recheck != nullptr) flag_read(lane, std::exchange(o.recheck, nullptr));
  // Acquire: what was seen at a scope that reaches its writer, by a fence that reaches it too.
  const auto reaches = [&](std::uint32_t slot) { return distance(b, slot) <= scope; };
  for (int s = 0; s < 3; ++s) {
    o.known.join_if(o.seen[s], reaches);
    o.known.join_if(b.seen[s], reaches);
  }
  // Release.
  for (int s = 0; s <= static_cast<int>(scope); ++s) add_all_before(o.fenced[s], lane);
  b.tick();
  fence_stores(*w, lane, scope);
}

void flag_written(Lane& lane, const void* flag, bool update) {
  Block& b = *lane.block;
  Knowledge everything;
  add_all_before(everything, lane);
  everything.join(b.hinted);
  if (lane.order) everything.join(lane.order->hinted);
  with_flag(b, flag, [&](FlagRecord& f) {
    for (int s = 0; s < 3; ++s) {
      if (!update) f.released[s].clear();
      f.released[s].join(b.fenced[s]);
      if (lane.order) f.released[s].join(lane.order->fenced[s]);
    }
    if (!update) f.everything.clear();
    f.everything.join(everything);
  });
  b.tick();
}

void flag_read(Lane& lane, const void* flag) {
  Block& b = *lane.block;
  with_flag(b, flag, [&](FlagRecord& f) {
    if (f.everything.empty()) return;
    LaneOrder& o = order_of(lane);
    // What was released at a scope that does not reach from its writer to this block tells it nothing.
    for (int s = 0; s < 3; ++s)
      o.seen[s].join_if(f.released[s],
                        [&](std::uint32_t slot) { return static_cast<int>(distance(b, slot)) <= s; });
    o.hinted.join(f.everything);
  });
}

void share_order(Block& b) {
  for (const std::uint16_t i : b.ordered_lanes) {
    LaneOrder& o = *b.lanes[i].order;
    b.known.join(o.known);
    b.hinted.join(o.hinted);
    for (int s = 0; s < 3; ++s) {
      b.fenced[s].join(o.fenced[s]);
      b.seen[s].join(o.seen[s]);
    }
    o = LaneOrder{};
  }
}

bool is_ordered_by_flags(const Lane& lane, Stamp stamp) {
  return lane.block->known.covers(stamp) || (lane.order && lane.order->known.covers(stamp));
}

const char* missing_fence(const Lane& lane, Stamp stamp) {
  const Block& b = *lane.block;
  const LaneOrder* o = lane.order.get();
  for (int s = 0; s < 3; ++s)
    if (b.seen[s].covers(stamp) || (o != nullptr && o->seen[s].covers(stamp)))
      return "a flag was read that says so, but no fence of sufficient scope follows the flag's load";
  if (b.hinted.covers(stamp) || (o != nullptr && o->hinted.covers(stamp)))
    return "a flag was read that says so, but its writer has no fence of sufficient scope before the flag's "
           "store";
  return nullptr;
}

void forget_flags() {
  for (Shard& s : shards) {
    const std::lock_guard<std::mutex> lock(s.mutex);
    s.flags.clear();
  }
}

}  // namespace musaic::simt
