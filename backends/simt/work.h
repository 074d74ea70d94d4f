// A piece of work: a launch or something that the host does in stream order, and what comes before it.
// Internal.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "backends/simt/launch.h"
#include "backends/simt/slots.h"

namespace musaic::simt {

struct Work {
  std::shared_ptr<WorkInfo> info = std::make_shared<WorkInfo>();
  Launch launch{};                    // entry null: `action` instead
  std::function<void(Work&)> action;  // runs on a worker; reports as this work

  std::vector<std::shared_ptr<Work>> before;  // until done
  std::vector<Work*> after;
  int waiting_for = 0;
  bool done = false;

  std::uint64_t first_concurrent = 0;    // work with smaller ids is ordered before
  std::vector<std::uint64_t> ancestors;  // bits of ids from first_concurrent on

  std::uint64_t blocks = 0;
  std::atomic<std::uint64_t> next_block{0}, finished_blocks{0};
  std::uint64_t order_seed = 0;

  /// Whether streams, events or the host order the work `id` before this one.
  bool comes_after(std::uint64_t id) const {
    if (id < first_concurrent) return true;
    const std::uint64_t bit = id - first_concurrent;
    return bit / 64 < ancestors.size() && (ancestors[bit / 64] >> (bit % 64) & 1) != 0;
  }
};

}  // namespace musaic::simt
