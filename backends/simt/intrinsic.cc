// What kernels call beside barriers and exchanges: shared variables, atomics, flags that are polled, stops.
#include <algorithm>
#include <cstring>

#include "backends/simt/access.h"
#include "backends/simt/find.h"
#include "backends/simt/order.h"
#include "backends/simt/worker.h"

namespace musaic::simt {
namespace {

constexpr std::uint32_t kGapBytes = 64;  // between shared variables, so that an overrun is seen

Lane* running_lane() { return this_worker == nullptr ? nullptr : this_worker->lane; }

void spin(Lane& lane, const void* return_address) {
  lane.polled_at = return_address;
  lane.state = LaneState::kSpinning;
  lane.block->spinners.push_back(lane.index);
  suspend(lane);
}

}  // namespace

void* shared_variable(const void* key, std::size_t bytes, std::size_t alignment) {
  Lane* lane = running_lane();
  if (lane == nullptr) return nullptr;
  const InExecutor guard;
  Block& b = *lane->block;
  for (const SharedRange& r : b.shared_ranges)
    if (r.key == key) return b.shared + r.offset;
  const auto size = static_cast<std::uint32_t>(bytes);
  const std::uint32_t step = std::max<std::uint32_t>(kGapBytes, static_cast<std::uint32_t>(alignment));
  const std::uint32_t offset = (b.shared_used + kGapBytes + step - 1) / step * step;
  b.static_bytes += size;
  const auto total = static_cast<std::int64_t>(b.static_bytes) + b.work->launch.dynamic_shared_bytes;
  const bool static_too_large = b.static_bytes > b.device->max_static_shared_bytes;
  if (static_too_large || total > b.device->max_shared_bytes || offset + size > kSharedCapacity) {
    found_at(Finding::kLaunchLimit, *b.work, index_in(b.linear, b.work->info->grid),
             index_in(lane->index, b.work->info->block), {},
             std::to_string(static_too_large ? b.static_bytes : total) + " bytes of " +
                 (static_too_large ? "static " : "") + "shared memory a block, the target has " +
                 std::to_string(static_too_large ? b.device->max_static_shared_bytes
                                                 : b.device->max_shared_bytes));
    abandon(*lane);
  }
  b.shared_ranges.push_back({key, offset, size});
  b.shared_used = offset + size;
  return b.shared + offset;
}

void* dynamic_shared() { return running_lane() == nullptr ? nullptr : running_lane()->block->shared; }

void spin_pause() {
  Lane* lane = running_lane();
  if (lane == nullptr) return;
  const InExecutor guard;
  spin(*lane, __builtin_extract_return_addr(__builtin_return_address(0)));
}

void poll(Lane& lane, const void* address, std::size_t bytes, const void* return_address) {
  constexpr unsigned kPatience = 64;  // a lane that waits for two flags in turn
  std::uint64_t value = 0;
  std::memcpy(&value, address, std::min<std::size_t>(bytes, sizeof value));
  if ((lane.polled == address && lane.polled_value == value) || ++lane.polls > kPatience) {
    lane.polled = address;
    spin(lane, return_address);
    std::memcpy(&value, address, std::min<std::size_t>(bytes, sizeof value));
  }
  lane.polled = address;
  lane.polled_value = value;
}

void before_atomic(const void* address, unsigned bytes, AtomicKind kind, const void* return_address) {
  Lane* lane = running_lane();
  if (lane == nullptr) return;
  const InExecutor guard;
  Worker& w = *this_worker;
  check_access(w, address, bytes,
               kind == AtomicKind::kLoad    ? Access::kAtomicRead
               : kind == AtomicKind::kStore ? Access::kAtomicWrite
                                            : Access::kAtomicUpdate,
               true, return_address);
  const bool buffered = options().store_buffers && device_of(address) >= 0;
  if (buffered) before_coherent(w, address, bytes);
  if (kind != AtomicKind::kStore) poll(*lane, address, bytes, return_address);
  if (buffered) before_coherent(w, address, bytes);
  if (kind == AtomicKind::kLoad) return;
  flag_written(*lane, address, kind == AtomicKind::kUpdate);
  if (kind == AtomicKind::kStore || lane->polls == 0) note_progress();
}

void after_atomic_read(const void* address) {
  Lane* lane = running_lane();
  if (lane == nullptr) return;
  const InExecutor guard;
  flag_read(*lane, address);
}

void trap(const char* message, Site where) {
  Lane* lane = running_lane();
  if (lane == nullptr) std::abort();
  const InExecutor guard;
  const WorkInfo& work = *lane->block->work->info;
  found_at(Finding::kTrap, *lane->block->work, index_in(lane->block->linear, work.grid),
           index_in(lane->index, work.block), where, message);
  abandon(*lane);
}

void require_feature(Feature feature) {
  Lane* lane = running_lane();
  if (lane == nullptr || has_feature(*lane->block->device, feature)) return;
  const InExecutor guard;
  found(Finding::kFeature, *lane, __builtin_extract_return_addr(__builtin_return_address(0)), nullptr,
        std::string("the target has no ") + (feature == Feature::kBFloat16 ? "bfloat16" : "fp8"));
}

void check_launch_bounds(int max_threads) {
  Lane* lane = running_lane();
  if (lane == nullptr || lane->block->lane_count <= static_cast<unsigned>(max_threads)) return;
  const InExecutor guard;
  found(Finding::kLaunchBounds, *lane, __builtin_extract_return_addr(__builtin_return_address(0)), nullptr,
        std::to_string(lane->block->lane_count) + " threads a block, the kernel is compiled for at most " +
            std::to_string(max_threads));
  abandon(*lane);
}

}  // namespace musaic::simt
