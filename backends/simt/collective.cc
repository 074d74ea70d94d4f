// Barriers, exchanges and votes: who waits for whom, and what each lane gets.
#include <algorithm>
#include <cstring>
#include <map>

#include "backends/simt/find.h"
#include "backends/simt/order.h"
#include "backends/simt/worker.h"

namespace musaic::simt {
namespace {

const char* name(ExchangeOp op) {
  static constexpr const char* kNames[] = {"shuffle",  "shuffle xor", "shuffle up", "shuffle down", "ballot",
                                           "any vote", "all vote",    "warp sync",  "active mask"};
  return kNames[static_cast<int>(op)];
}
bool is_shuffle(ExchangeOp op) { return op <= ExchangeOp::kDown; }
bool is_vote(ExchangeOp op) { return op >= ExchangeOp::kBallot && op <= ExchangeOp::kAll; }

bool same_site(const Site& a, const Site& b) {
  return a.line == b.line && a.column == b.column && std::strcmp(a.file, b.file) == 0;
}
std::string place(const Site& s) {
  const std::string file(s.file);
  return file.substr(file.find_last_of('/') + 1) + ":" + std::to_string(s.line);
}

LaneSet bit(int lane) { return static_cast<LaneSet>(1) << lane; }
LaneSet first_lanes(int n) { return n == 128 ? ~static_cast<LaneSet>(0) : bit(n) - 1; }

Lane& lane_of(Block& b, int warp, int i) {
  return b.lanes[static_cast<std::size_t>(warp) * static_cast<std::size_t>(b.device->hardware_warp) +
                 static_cast<std::size_t>(i)];
}

void report(Finding finding, const Lane& lane, Site where, std::string message, int at_lane = -1) {
  const WorkInfo& work = *lane.block->work->info;
  found_at(finding, *lane.block->work, index_in(lane.block->linear, work.grid),
           index_in(lane.index, work.block), where, std::move(message), at_lane);
}

/// The lanes that an exchange of `lane` waits for: those of its mask that have not exited.
LaneSet needed(const Block& b, const Lane& lane) {
  const LaneSet live = b.warp_live[lane.warp];
  return b.device->whole_warp_exchanges ? live : live & static_cast<LaneSet>(lane.request->mask);
}

/// The lane that lane i reads; i itself where the exchange leaves its segment.
int source_lane(const Request& r, int i, int width) {
  const int segment = i / width * width, end = segment + width;
  int s = i;
  switch (r.op) {
    case ExchangeOp::kIndex:
      return segment + (r.argument & (width - 1));
    case ExchangeOp::kXor:
      s = i ^ r.argument;
      return s >= end ? i : s;
    case ExchangeOp::kUp:
      s = i - r.argument;
      return s < segment ? i : s;
    case ExchangeOp::kDown:
      s = i + r.argument;
      return s >= end ? i : s;
    default:
      return i;
  }
}

void deliver_shuffle(Block& b, int warp, LaneSet members) {
  const int lanes = b.device->hardware_warp;
  alignas(16) unsigned char sent[128][16];
  for (int i = 0; i < lanes; ++i)
    if (members & bit(i)) {
      const Request& r = *lane_of(b, warp, i).request;
      std::memcpy(sent[i], r.value, r.bytes);
    }
  for (int i = 0; i < lanes; ++i) {
    if (!(members & bit(i))) continue;
    const Lane& lane = lane_of(b, warp, i);
    Request& r = *lane.request;
    int source = source_lane(r, i, r.width);
    // What hardware was seen to do with too wide a segment: the lane number's high bits are lost.
    if (r.width > b.device->max_exchange_width) source = (i & ~31) | (source & 31);
    if (source < 0 || source >= lanes || !(members & bit(source))) {
      const char* why = source < 0 || source >= lanes ? "does not exist"
                        : static_cast<unsigned>(lane_of(b, warp, source).index) >= b.lane_count
                            ? "does not exist in this block"
                        : b.warp_live[static_cast<std::size_t>(warp)] & bit(source) ? "is not in the mask"
                                                                                    : "has exited";
      report(Finding::kExchangeLane, lane, r.site,
             std::string(name(r.op)) + ": lane " + std::to_string(i) + " of warp " + std::to_string(warp) +
                 " reads lane " + std::to_string(source) + ", which " + why,
             i);
      std::memset(r.value, 0xdb, r.bytes);
      continue;
    }
    std::memcpy(r.value, sent[source], r.bytes);
  }
}

void deliver_vote(Block& b, int warp, LaneSet members, ExchangeOp op) {
  const int lanes = b.device->hardware_warp;
  // A vote covers as many lanes as a mask has bits.
  const int group = std::min(lanes, b.device->mask_bits);
  for (int first = 0; first < lanes; first += group) {
    const LaneSet voters = members >> first & first_lanes(group);
    std::uint64_t votes = 0;
    for (int i = 0; i < group; ++i)
      if (voters & bit(i) && *static_cast<std::uint64_t*>(lane_of(b, warp, first + i).request->value) != 0)
        votes |= std::uint64_t{1} << i;
    const std::uint64_t result = op == ExchangeOp::kBallot ? votes
                                 : op == ExchangeOp::kAny  ? votes != 0
                                                           : votes == static_cast<std::uint64_t>(voters);
    for (int i = 0; i < group; ++i)
      if (voters & bit(i)) *static_cast<std::uint64_t*>(lane_of(b, warp, first + i).request->value) = result;
  }
}

void deliver_sync(Block& b, int warp, LaneSet members) {
  b.tick();
  for (int i = 0; i < b.device->hardware_warp; ++i) {
    if (!(members & bit(i))) continue;
    Lane& lane = lane_of(b, warp, i);
    const LaneSet group = first_lanes(32) << (i & ~31) & b.warp_live[static_cast<std::size_t>(warp)];
    const WarpSync sync{b.clock, members, (members & group) == group};
    // A sync of at least the same lanes replaces an older one.
    for (std::uint8_t k = 0; k < lane.sync_count; ++k)
      if ((lane.syncs[k].lanes & ~members) == 0) {
        lane.syncs[k] = lane.syncs[--lane.sync_count];
        --k;
      }
    if (lane.sync_count == lane.syncs.size()) {
      for (std::size_t k = 1; k < lane.syncs.size(); ++k) lane.syncs[k - 1] = lane.syncs[k];
      --lane.sync_count;
    }
    lane.syncs[lane.sync_count++] = sync;
  }
}

void report_divergence(Block& b, int warp, LaneSet members) {
  const Lane* first = nullptr;
  const Lane* second = nullptr;
  int other = -1;
  for (int i = 0; i < b.device->hardware_warp; ++i) {
    if (!(members & bit(i))) continue;
    const Lane& lane = lane_of(b, warp, i);
    if (first == nullptr) {
      first = &lane;
    } else if (second == nullptr && (lane.request->op != first->request->op ||
                                     !same_site(lane.request->site, first->request->site) ||
                                     lane.request->mask != first->request->mask)) {
      second = &lane;
      other = i;
    }
  }
  report(Finding::kExchangeDivergence, *second, second->request->site,
         "lanes of one hardware warp meet at different exchanges: lane " + std::to_string(other) + " at " +
             name(second->request->op) + " " + place(second->request->site) + ", lane " +
             std::to_string(first->warp_lane) + " at " + name(first->request->op) + " " +
             place(first->request->site) +
             (same_site(first->request->site, second->request->site) ? " (with different masks)" : ""),
         other);
  b.killed = true;
}

/// Completes one exchange of the warp if all its lanes have arrived.
bool try_exchange(Block& b, int warp) {
  const LaneSet waiting = b.warp_waiting[static_cast<std::size_t>(warp)];
  for (int i = 0; i < b.device->hardware_warp; ++i) {
    if (!(waiting & bit(i))) continue;
    const Lane& lane = lane_of(b, warp, i);
    const LaneSet members = needed(b, lane);
    if ((waiting & members) != members) continue;
    const Request& r = *lane.request;
    for (int k = 0; k < b.device->hardware_warp; ++k) {
      if (!(members & bit(k))) continue;
      const Request& o = *lane_of(b, warp, k).request;
      if (o.op != r.op || !same_site(o.site, r.site) ||
          (!b.device->whole_warp_exchanges && o.mask != r.mask)) {
        report_divergence(b, warp, members);
        return false;
      }
    }
    if (is_shuffle(r.op)) deliver_shuffle(b, warp, members);
    if (is_vote(r.op)) deliver_vote(b, warp, members, r.op);
    if (r.op == ExchangeOp::kSync) deliver_sync(b, warp, members);
    b.warp_waiting[static_cast<std::size_t>(warp)] &= ~members;
    for (int k = 0; k < b.device->hardware_warp; ++k)
      if (members & bit(k)) make_ready(lane_of(b, warp, k));
    note_progress();
    return true;
  }
  return false;
}

void complete_barrier(Block& b) {
  if (b.live != b.lane_count) {
    const Lane& lane = b.lanes[b.at_barrier.front()];
    std::string exited;
    for (const Lane& l : b.lanes)
      if (l.state == LaneState::kExited && l.index < b.lane_count) {
        exited = text(index_in(l.index, b.work->info->block));
        break;
      }
    report(Finding::kBarrierDivergence, lane, lane.barrier_site,
           std::to_string(b.lane_count - b.live) + " of " + std::to_string(b.lane_count) +
               " threads of the block ended before this barrier, the first of them thread " + exited);
  }
  switch (b.barrier_kind) {
    case BarrierKind::kOr:
      b.barrier_result = b.barrier_votes != 0;
      break;
    case BarrierKind::kAnd:
      b.barrier_result = b.barrier_votes == static_cast<int>(b.at_barrier.size());
      break;
    default:
      b.barrier_result = b.barrier_votes;
  }
  b.barrier_votes = 0;
  b.tick();
  b.shared_sync = b.clock;
  if (b.barrier_kind != BarrierKind::kSharedOnly) {
    b.global_sync = b.clock;
    share_order(b);
  }
  for (const std::uint16_t i : b.at_barrier) {
    Lane& lane = b.lanes[i];
    if (b.barrier_kind != BarrierKind::kSharedOnly) lane.sync_count = 0;
    lane.state = LaneState::kReady;
  }
  if (b.ready_count() == 0) {
    b.ready.clear();
    b.ready_head = 0;
    std::swap(b.ready, b.at_barrier);
  } else {
    b.ready.insert(b.ready.end(), b.at_barrier.begin(), b.at_barrier.end());
    b.at_barrier.clear();
  }
  note_progress();
}

}  // namespace

int barrier(BarrierKind kind, int predicate, Site where) {
  Worker* w = this_worker;
  if (w == nullptr || w->lane == nullptr) return 0;
  const InExecutor guard;
  Lane& lane = *w->lane;
  Block& b = *lane.block;
  if (!b.at_barrier.empty()) {
    const Lane& first = b.lanes[b.at_barrier.front()];
    if (b.barrier_kind != kind || !same_site(first.barrier_site, where))
      report(Finding::kBarrierDivergence, lane, where,
             "threads of one block meet at different barriers: this one at " + place(where) + ", thread " +
                 text(index_in(first.index, b.work->info->block)) + " at " + place(first.barrier_site));
  }
  b.barrier_kind = kind;
  if (kind != BarrierKind::kFull && kind != BarrierKind::kSharedOnly) b.barrier_votes += predicate != 0;
  lane.barrier_site = where;
  lane.polls = 0;
  lane.state = LaneState::kAtBarrier;
  b.at_barrier.push_back(lane.index);
  if (b.at_barrier.size() == b.live) complete_barrier(b);
  suspend(lane);
  return b.barrier_result;
}

void exchange(ExchangeOp op, std::uint64_t mask, void* value, unsigned bytes, int argument, int width,
              Site where) {
  Worker* w = this_worker;
  if (w == nullptr || w->lane == nullptr) return;
  const InExecutor guard;
  Lane& lane = *w->lane;
  Block& b = *lane.block;
  const DeviceRecord& d = *b.device;
  const int i = lane.warp_lane;
  const std::uint64_t full = d.mask_bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << d.mask_bits) - 1;
  if (mask != kEveryLane && (mask & ~full) != 0)
    report(Finding::kExchangeMask, lane, where,
           "the mask names lanes beyond the target's " + std::to_string(d.mask_bits) + " bits", i);
  if (d.mask_bits >= d.hardware_warp && (mask >> i & 1) == 0) {
    report(Finding::kExchangeMask, lane, where,
           "lane " + std::to_string(i) + " calls with a mask that does not name it; the warp has " +
               std::to_string(d.hardware_warp) + " lanes",
           i);
    mask |= std::uint64_t{1} << i;
    abandon(lane);
  }
  if (is_shuffle(op) && (width <= 0 || (width & (width - 1)) != 0 || width > d.max_exchange_width)) {
    report(Finding::kExchangeWidth, lane, where,
           "an exchange of width " + std::to_string(width) + ": the target delivers widths of 1, 2, 4, ... " +
               std::to_string(d.max_exchange_width) +
               (d.host_warp_size == width && d.device_warp_size != width
                    ? " (the host's warp size is " + std::to_string(d.host_warp_size) + ", the kernel's " +
                          std::to_string(d.device_warp_size) + ")"
                    : ""),
           i);
    if (width <= 0 || (width & (width - 1)) != 0 || width > 128) abandon(lane);
  }
  Request request{op, mask & full, value, bytes, argument, width, where, nullptr};
  lane.request = &request;
  lane.polls = 0;
  lane.state = LaneState::kAtExchange;
  b.warp_waiting[lane.warp] |= bit(i);
  try_exchange(b, lane.warp);
  if (b.killed) abandon(lane);
  suspend(lane);
  lane.request = nullptr;
}

void complete_without(Lane& lane) {
  Block& b = *lane.block;
  if (!b.at_barrier.empty() && b.at_barrier.size() == b.live) complete_barrier(b);
  if (b.warp_waiting[lane.warp] != 0) try_exchange(b, lane.warp);
}

void report_stuck(Block& b) {
  struct Waiting {
    int threads = 0;
    const Lane* first = nullptr;
  };
  std::map<std::string, Waiting> groups;
  const Lane* waits = nullptr;
  const Lane* exchanges = nullptr;
  for (const Lane& lane : b.lanes) {
    if (lane.index >= b.lane_count) continue;
    std::string s;
    switch (lane.state) {
      case LaneState::kAtBarrier:
        s = "at the barrier " + place(lane.barrier_site);
        if (waits == nullptr) waits = &lane;
        break;
      case LaneState::kAtExchange:
        s = std::string("at the ") + name(lane.request->op) + " " + place(lane.request->site);
        if (exchanges == nullptr) exchanges = &lane;
        break;
      case LaneState::kExited:
        s = "ended";
        break;
      default:
        s = "running";
    }
    Waiting& group = groups[s];
    if (group.threads++ == 0) group.first = &lane;
  }
  std::string message = "the block cannot go on:";
  const char* separator = " ";
  for (const auto& [s, group] : groups) {
    message += separator + std::to_string(group.threads) + " threads " + s + " (first " +
               text(index_in(group.first->index, b.work->info->block)) + ")";
    separator = ", ";
  }
  if (exchanges != nullptr)
    report(Finding::kExchangeDivergence, *exchanges, exchanges->request->site, message, exchanges->warp_lane);
  else if (waits != nullptr)
    report(Finding::kBarrierDivergence, *waits, waits->barrier_site, message);
  b.killed = true;
}

}  // namespace musaic::simt
