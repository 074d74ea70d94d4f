#include "backends/simt/slots.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "backends/simt/shadow.h"

namespace musaic::simt {
namespace {

constexpr std::uint32_t kSlots = 1u << Stamp::kSlotBits;
constexpr std::uint32_t kFirstSlot = 3;

SlotInfo* table() {
  static auto* t = static_cast<SlotInfo*>(reserve_address_space(kSlots * sizeof(SlotInfo)));
  return t;
}
std::atomic<std::uint32_t> next_slot{kFirstSlot};
std::mutex infos_mutex;
std::vector<std::shared_ptr<const WorkInfo>> infos;

}  // namespace

std::uint32_t take_slot(const WorkInfo& work, std::uint32_t block) {
  const std::uint32_t slot = next_slot.load(std::memory_order_relaxed) < kSlots
                                 ? next_slot.fetch_add(1, std::memory_order_relaxed)
                                 : kSlots;
  if (slot >= kSlots) return kSharedSlot;
  table()[slot] = {&work, block};
  return slot;
}

const SlotInfo& slot_info(std::uint32_t slot) { return table()[slot]; }

void keep_info(std::shared_ptr<const WorkInfo> info) {
  const std::lock_guard<std::mutex> lock(infos_mutex);
  infos.push_back(std::move(info));
}

void recycle_slots() {
  if (next_slot.load() < kSlots / 2) return;
  forget_slots();
  next_slot = kFirstSlot;
  const std::lock_guard<std::mutex> lock(infos_mutex);
  infos.clear();
}

Index3 index_in(std::uint64_t linear, Index3 extent) {
  return {static_cast<unsigned>(linear % extent.x), static_cast<unsigned>(linear / extent.x % extent.y),
          static_cast<unsigned>(linear / extent.x / extent.y)};
}

}  // namespace musaic::simt
