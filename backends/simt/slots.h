// Slots: small numbers that name a run of a block (or a copy) in the stamps of the shadow. Internal.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/simt/report.h"

namespace musaic::simt {

/// What outlives a piece of work so that reports can name it.
struct WorkInfo {
  std::uint64_t id = 0;
  std::string kernel;
  int device = 0;
  Index3 grid{1, 1, 1}, block{1, 1, 1};
};

struct SlotInfo {
  const WorkInfo* work = nullptr;
  std::uint32_t block = 0;
};

inline constexpr std::uint32_t kNoSlot = 0;
inline constexpr std::uint32_t kHostSlot = 1;
/// Used when a launch has more blocks than slots are left: such blocks are not told apart.
inline constexpr std::uint32_t kSharedSlot = 2;

std::uint32_t take_slot(const WorkInfo& work, std::uint32_t block);
const SlotInfo& slot_info(std::uint32_t slot);
/// Keeps the info as long as stamps may name it.
void keep_info(std::shared_ptr<const WorkInfo> info);
/// Starts anew if few slots are left. No kernel may run.
void recycle_slots();

Index3 index_in(std::uint64_t linear, Index3 extent);

}  // namespace musaic::simt
