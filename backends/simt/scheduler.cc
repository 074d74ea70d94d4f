#include "backends/simt/scheduler.h"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "backends/simt/find.h"
#include "backends/simt/options.h"
#include "backends/simt/worker.h"
#include "musaic/error.h"

namespace musaic::simt {

thread_local Worker* this_worker __attribute__((tls_model("initial-exec"))) = nullptr;

namespace {

/// Blocks that random schedules keep going side by side.
constexpr std::size_t kInterleavedBlocks = 8;

struct Machine {
  std::mutex mutex;
  std::vector<std::shared_ptr<Work>> runnable;  // in the order in which they became so
  std::atomic<std::size_t> unfinished{0};
  int resident[kDevices] = {};
  std::atomic<std::uint64_t> progress{0};
  std::atomic<int> idle_workers{0};
  int workers = 1;

  std::mutex run_mutex;  // one run at a time
  std::condition_variable start, stopped;
  std::uint64_t generation = 0;
  int running_helpers = 0;
  std::vector<std::unique_ptr<Worker>> all_workers;
  std::vector<std::thread> helpers;
};
Machine& machine() {
  static Machine& m = *new Machine;  // helpers may outlive main()
  return m;
}

thread_local bool inside_action = false;

bool is_random() { return options().schedule != Schedule::kInOrder; }
bool is_single() { return is_random() || options().store_buffers; }

int worker_count() {
  if (is_single()) return 1;
  if (options().workers > 0) return options().workers;
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

int residency_limit(const Work& work) {
  if (options().resident_blocks > 0) return options().resident_blocks;
  const DeviceRecord& d = current_target();
  const Index3 b = work.info->block;
  const int threads = static_cast<int>(b.x * b.y * b.z);
  const int per_multiprocessor =
      std::min(d.max_blocks_per_multiprocessor, d.max_threads_per_multiprocessor / threads);
  return d.multiprocessors * std::max(1, per_multiprocessor);
}

// --- lanes

[[noreturn]] void lane_main() {
  Worker& w = *this_worker;
  Lane& lane = *w.lane;
  Block& b = *lane.block;
  const Launch& launch = b.work->launch;
  w.in_kernel = true;
  launch.entry(launch.arguments.get());
  w.in_kernel = false;
  lane.state = LaneState::kExited;
  --b.live;
  b.warp_live[lane.warp] &= ~(static_cast<LaneSet>(1) << lane.warp_lane);
  complete_without(lane);
  note_progress();
  switch_context(lane.context, w.own);
  __builtin_unreachable();
}

void resume(Worker& w, Lane& lane) {
  if (lane.state == LaneState::kFresh) {
    lane.stack = w.stacks.take();
    make_context(lane.context, *lane.stack, lane_main);
    ++lane.block->started;
    lane.state = LaneState::kReady;
  }
  w.lane = &lane;
  switch_context(w.own, lane.context);
  w.lane = nullptr;
  if (lane.state == LaneState::kExited) {
    w.stacks.give(lane.stack);
    lane.stack = nullptr;
  }
}

Lane* fresh_lane(Block& b) { return b.started < b.lane_count ? &b.lanes[b.start_order[b.started]] : nullptr; }

Lane* next_ready(Block& b) {
  if (b.ready_count() == 0) return nullptr;
  Lane& lane = b.lanes[b.ready[b.ready_head++]];
  if (b.ready_head == b.ready.size()) {
    b.ready.clear();
    b.ready_head = 0;
  }
  return &lane;
}

/// Any lane, or with run-ahead a lane of the favoured warp as long as it has one: a uniform choice keeps all
/// warps at about the same place, which hides most missing barriers.
Lane* random_lane(Worker& w, Block& b) {
  const unsigned ready = b.ready_count();
  Lane* fresh = fresh_lane(b);
  if (ready == 0) return fresh;
  const bool run_ahead = options().schedule == Schedule::kRunAhead;
  if (run_ahead && w.random.one_in(256))
    b.favoured_warp = static_cast<int>(w.random.below(b.warp_live.size()));
  if (fresh != nullptr && (run_ahead ? fresh->warp == b.favoured_warp : w.random.one_in(2))) return fresh;
  std::size_t chosen = b.ready_head + w.random.below(ready);
  if (run_ahead) {
    bool found = false;
    for (std::size_t i = b.ready_head; i < b.ready.size() && !found; ++i)
      if (b.lanes[b.ready[i]].warp == b.favoured_warp) {
        chosen = i;
        found = true;
      }
    if (!found && fresh != nullptr && w.random.one_in(2)) {
      b.favoured_warp = fresh->warp;
      return fresh;
    }
    if (!found) b.favoured_warp = b.lanes[b.ready[chosen]].warp;
  }
  std::swap(b.ready[b.ready_head], b.ready[chosen]);
  return next_ready(b);
}

Lane* next_lane(Worker& w, Block& b) {
  if (is_random()) return random_lane(w, b);
  // Ready lanes first: a warp's stacks stay warm.
  Lane* lane = next_ready(b);
  return lane != nullptr ? lane : fresh_lane(b);
}

bool can_run(const Block& b) { return b.ready_count() > 0 || b.started < b.lane_count; }

// --- blocks

void start_block(Worker& w, Work& work, std::uint64_t linear) {
  std::unique_ptr<Block> owned;
  if (w.idle_blocks.empty()) {
    owned = std::make_unique<Block>();
    owned->shared = static_cast<char*>(reserve_address_space(kSharedCapacity));
    owned->shared_cells = static_cast<Cell*>(reserve_address_space(kSharedCapacity * sizeof(Cell)));
  } else {
    owned = std::move(w.idle_blocks.back());
    w.idle_blocks.pop_back();
  }
  Block& b = *owned;
  const Index3 extent = work.info->block;
  const DeviceRecord& d = current_target();
  const unsigned count = extent.x * extent.y * extent.z;
  const auto warp = static_cast<unsigned>(d.hardware_warp);
  const unsigned warps = (count + warp - 1) / warp;
  // By number: the address of finished work may come back.
  if (b.work_id != work.info->id || b.lanes.size() != warps * warp) {
    if (b.lanes.size() != warps * warp) b.lanes = std::vector<Lane>(warps * warp);
    b.shared_ranges.clear();
    b.shared_used = 0;
    b.static_bytes = 0;
    if (work.launch.dynamic_shared_bytes > 0) {
      const auto bytes = static_cast<std::uint32_t>(work.launch.dynamic_shared_bytes);
      b.shared_ranges.push_back({nullptr, 0, bytes});
      b.shared_used = bytes;
    }
  }
  b.work = &work;
  b.work_id = work.info->id;
  b.device = &d;
  b.linear = linear;
  b.slot = take_slot(*work.info, static_cast<std::uint32_t>(linear));
  b.lane_count = b.live = count;
  b.started = 0;
  b.killed = false;
  b.ready.clear();
  b.ready_head = 0;
  b.spinners.clear();
  b.at_barrier.clear();
  b.barrier_votes = 0;
  b.clock = b.shared_sync = b.global_sync = 1;
  b.known.clear();
  b.hinted.clear();
  for (int s = 0; s < 3; ++s) {
    b.fenced[s].clear();
    b.seen[s].clear();
  }
  b.ordered_lanes.clear();
  b.shared_flags.clear();
  b.stores.device = work.info->device;
  b.warp_live.assign(warps, 0);
  b.warp_waiting.assign(warps, 0);
  b.start_order.resize(count);
  const Index3 block_index = index_in(linear, work.info->grid);
  for (unsigned i = 0; i < b.lanes.size(); ++i) {
    Lane& lane = b.lanes[i];
    lane.block = &b;
    lane.index = static_cast<std::uint16_t>(i);
    lane.warp = static_cast<std::uint16_t>(i / warp);
    lane.warp_lane = static_cast<std::uint16_t>(i % warp);
    lane.state = i < count ? LaneState::kFresh : LaneState::kExited;
    lane.request = nullptr;
    lane.sync_count = 0;
    lane.polled = nullptr;
    lane.polls = 0;
    lane.order.reset();
    lane.stack = nullptr;
    if (i >= count) continue;
    b.start_order[i] = static_cast<std::uint16_t>(i);
    b.warp_live[lane.warp] |= static_cast<LaneSet>(1) << lane.warp_lane;
    const Index3 t = index_in(i, extent);
    lane.info.thread_index = {t.x, t.y, t.z};
    lane.info.block_index = {block_index.x, block_index.y, block_index.z};
    lane.info.block_extent = work.launch.block;
    lane.info.grid_extent = work.launch.grid;
    lane.info.warp_size = d.device_warp_size;
  }
  if (is_random()) {
    // Lanes of a warp stay together; warps, and lanes within a warp, come in any order.
    std::vector<std::uint16_t> order(warps);
    for (unsigned i = 0; i < warps; ++i) order[i] = static_cast<std::uint16_t>(i);
    for (std::size_t i = warps; i > 1; --i) std::swap(order[i - 1], order[w.random.below(i)]);
    unsigned at = 0;
    for (const unsigned chosen : order) {
      const unsigned first = at;
      for (unsigned i = chosen * warp; i < std::min(count, (chosen + 1) * warp); ++i)
        b.start_order[at++] = static_cast<std::uint16_t>(i);
      for (std::size_t i = at - first; i > 1; --i)
        std::swap(b.start_order[first + i - 1], b.start_order[first + w.random.below(i)]);
    }
    b.favoured_warp = order[0];
  }
  w.resident.push_back(std::move(owned));
}

void finish(Work& work) {
  Machine& m = machine();
  std::vector<std::shared_ptr<Work>> released;
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    work.done = true;
    released = std::move(work.before);
    work.before.clear();
    for (Work* next : work.after)
      if (--next->waiting_for == 0)
        for (auto& holder : next->before)
          if (holder.get() == next) {
            m.runnable.push_back(holder);
            break;
          }
    work.after.clear();
  }
  note_progress();
  --m.unfinished;
}

void retire(Worker& w, std::size_t i) {
  std::unique_ptr<Block> owned = std::move(w.resident[i]);
  w.resident.erase(w.resident.begin() + static_cast<std::ptrdiff_t>(i));
  Block& b = *owned;
  for (Lane& lane : b.lanes)
    if (lane.stack != nullptr) {
      w.stacks.give(lane.stack);
      lane.stack = nullptr;
    }
  Work& work = *b.work;
  if (options().store_buffers) retire_stores(w, b);
  w.idle_blocks.push_back(std::move(owned));
  Machine& m = machine();
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    --m.resident[work.info->device];
  }
  note_progress();
  if (++work.finished_blocks != work.blocks) return;
  if (options().store_buffers) {
    w.lingering.push_back(&work);
  } else {
    finish(work);
  }
}

void finish_lingering(Worker& w) {
  for (std::size_t i = w.lingering.size(); i-- > 0;) {
    Work* work = w.lingering[i];
    if (has_late_stores(*work)) continue;
    w.lingering.erase(w.lingering.begin() + static_cast<std::ptrdiff_t>(i));
    finish(*work);
  }
}

/// Runs a block until it must wait for others, or in random schedules for some steps.
void run_block(Worker& w, std::size_t i) {
  Block& b = *w.resident[i];
  if (options().store_buffers) apply_view(w, &b);
  while (!b.killed && b.live > 0) {
    Lane* lane = next_lane(w, b);
    if (lane == nullptr) break;
    resume(w, *lane);
    if (is_single() && w.resident.size() > 1 && w.random.one_in(16)) break;
  }
  if (!b.killed && b.live > 0 && !can_run(b) && b.spinners.empty()) report_stuck(b);
  if (b.killed || b.live == 0) {
    retire(w, i);
  } else {
    w.turn = i + 1;
  }
}

/// Starts a block of a launch, or does what the host is to do. False: nothing to take.
bool take_work(Worker& w) {
  Machine& m = machine();
  std::shared_ptr<Work> work;
  std::uint64_t block = 0;
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    const std::size_t n = m.runnable.size();
    const std::size_t first = n > 1 && is_random() ? w.random.below(n) : 0;
    for (std::size_t k = 0; k < n && work == nullptr; ++k) {
      const std::size_t i = (first + k) % n;
      Work& candidate = *m.runnable[i];
      const bool is_launch = candidate.launch.entry != nullptr;
      if (is_launch && m.resident[candidate.info->device] >= residency_limit(candidate)) continue;
      work = m.runnable[i];
      if (is_launch) {
        block = candidate.next_block++;
        ++m.resident[candidate.info->device];
      }
      if (!is_launch || candidate.next_block == candidate.blocks)
        m.runnable.erase(m.runnable.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  if (work == nullptr) return false;
  if (work->launch.entry != nullptr) {
    start_block(w, *work, block);
  } else {
    if (options().store_buffers) apply_view(w, nullptr);
    this_worker = nullptr;
    inside_action = true;
    if (work->action) work->action(*work);
    inside_action = false;
    this_worker = &w;
    finish(*work);
  }
  return true;
}

void stop_being_idle(Worker& w) {
  w.idle_rounds = 0;
  if (w.counted_idle) --machine().idle_workers;
  w.counted_idle = false;
}

void report_livelock(Worker& w) {
  for (const auto& b : w.resident) {
    if (b->spinners.empty()) continue;
    const Lane& lane = b->lanes[b->spinners.front()];
    found(Finding::kLivelock, lane, lane.polled_at, lane.polled,
          "everything that is resident waits for something that nobody does: a flag that is never set, or a "
          "grid "
          "larger than the " +
              std::to_string(residency_limit(*b->work)) + " blocks that the device holds at once");
    break;
  }
  Machine& m = machine();
  while (!w.resident.empty()) {
    Work& work = *w.resident.front()->work;
    std::uint64_t skipped = 0;
    {
      const std::lock_guard<std::mutex> lock(m.mutex);
      const auto it =
          std::find_if(m.runnable.begin(), m.runnable.end(), [&](const auto& r) { return r.get() == &work; });
      if (it != m.runnable.end()) {
        skipped = work.blocks - work.next_block;
        work.next_block = work.blocks;
        m.runnable.erase(it);
      }
    }
    work.finished_blocks += skipped;
    retire(w, 0);
  }
}

/// Nothing is ready. Spinning lanes look again; if nothing changes for long, nothing ever will.
void idle(Worker& w) {
  Machine& m = machine();
  const std::uint64_t progress = m.progress;
  if (progress != w.seen_progress) stop_being_idle(w);
  w.seen_progress = progress;
  for (auto& b : w.resident) {
    for (const std::uint16_t i : b->spinners) make_ready(b->lanes[i]);
    b->spinners.clear();
  }
  if (options().store_buffers) apply_view(w, nullptr);  // late stores arrive at last
  constexpr unsigned kIdleRounds = 100, kLivelockRounds = 2000;
  if (++w.idle_rounds > kIdleRounds && !w.counted_idle) {
    w.counted_idle = true;
    ++m.idle_workers;
  }
  if (w.idle_rounds > kLivelockRounds && m.idle_workers == m.workers && !w.resident.empty()) {
    for (auto& b : w.resident)
      while (b->ready_count() > 0) {
        Lane& lane = *next_ready(*b);
        lane.state = LaneState::kSpinning;
        b->spinners.push_back(lane.index);
      }
    report_livelock(w);
  }
  if (m.workers > 1) sched_yield();
}

void work_until_done(Worker& w) {
  Machine& m = machine();
  this_worker = &w;
  w.random.state = (options().seed * 0x9e3779b97f4a7c15ull) ^ (static_cast<std::uint64_t>(w.id) + 0x1234567);
  if (w.random.state == 0) w.random.state = 1;
  w.until_preemption = is_random() ? 1 + static_cast<unsigned>(w.random.below(256)) : 0;
  w.turn = 0;
  while (!w.resident.empty() || m.unfinished > 0) {
    if (!w.lingering.empty()) finish_lingering(w);
    if (is_single() && w.resident.size() < kInterleavedBlocks && w.random.one_in(2) && take_work(w)) continue;
    bool ran = false;
    const std::size_t n = w.resident.size();
    const std::size_t first = is_random() && n > 1 ? w.random.below(n) : w.turn;
    for (std::size_t k = 0; k < n && !ran; ++k) {
      const std::size_t i = (first + k) % n;
      if (!can_run(*w.resident[i])) continue;
      run_block(w, i);
      ran = true;
    }
    // Woken spinners run, but that alone is not progress: idle() decides by what others change.
    if (ran) continue;
    if (take_work(w)) {
      stop_being_idle(w);
      continue;
    }
    idle(w);
  }
  stop_being_idle(w);
  if (options().store_buffers) apply_view(w, nullptr);
  this_worker = nullptr;
}

void help(Machine& m, Worker& w) {
  std::uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(m.mutex);
      m.start.wait(lock, [&] { return m.generation != seen && w.id < m.workers; });
      seen = m.generation;
    }
    work_until_done(w);
    const std::lock_guard<std::mutex> lock(m.mutex);
    --m.running_helpers;
    m.stopped.notify_all();
  }
}

}  // namespace

void note_progress() { machine().progress.fetch_add(1, std::memory_order_relaxed); }

void make_ready(Lane& lane) {
  lane.state = LaneState::kReady;
  lane.block->ready.push_back(lane.index);
}

void suspend(Lane& lane) { switch_context(lane.context, this_worker->own); }

void abandon(Lane& lane) {
  lane.block->killed = true;
  switch_context(lane.context, this_worker->own);
  __builtin_unreachable();
}

const ThreadInfo& self() {
  static constexpr ThreadInfo kHost{};
  return this_worker != nullptr && this_worker->lane != nullptr ? this_worker->lane->info : kHost;
}

void submit(std::shared_ptr<Work> work) {
  Machine& m = machine();
  const std::lock_guard<std::mutex> lock(m.mutex);
  ++m.unfinished;
  work->waiting_for = 0;
  for (const auto& b : work->before)
    if (!b->done) {
      ++work->waiting_for;
      b->after.push_back(work.get());
    }
  if (work->waiting_for == 0) m.runnable.push_back(work);
  Work& w = *work;
  w.before.push_back(std::move(work));  // it lives until it is done, whatever its stream does
}

bool is_running_work() { return this_worker != nullptr || inside_action; }

void run_everything() {
  Machine& m = machine();
  if (m.unfinished == 0) return;
  if (is_running_work()) throw Error("simt: a kernel or a host function waits for work");
  const std::lock_guard<std::mutex> one_run(m.run_mutex);
  Worker* own = nullptr;
  {
    const std::lock_guard<std::mutex> lock(m.mutex);
    m.workers = worker_count();
    while (static_cast<int>(m.all_workers.size()) < m.workers) {
      m.all_workers.push_back(std::make_unique<Worker>());
      Worker& w = *m.all_workers.back();
      w.id = static_cast<int>(m.all_workers.size()) - 1;
      if (w.id == 0) continue;
      m.helpers.emplace_back([&m, &w] { help(m, w); });
      m.helpers.back().detach();
    }
    m.idle_workers = 0;
    m.running_helpers = m.workers - 1;
    ++m.generation;
    own = m.all_workers.front().get();
  }
  m.start.notify_all();
  work_until_done(*own);
  std::unique_lock<std::mutex> lock(m.mutex);
  m.stopped.wait(lock, [&] { return m.running_helpers == 0; });
}

}  // namespace musaic::simt
