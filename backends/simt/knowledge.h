// What a thread may rely on of other threads' writes: the executor's form of a vector clock. Internal.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "backends/simt/shadow.h"

namespace musaic::simt {

/// Sets of writes, each given by a block's run and times in it.
class Knowledge {
 public:
  /// Adds the writes of a run before `all_before` by any of its threads, and before `before` by `thread`.
  void add(std::uint32_t slot, std::uint32_t all_before, std::uint32_t thread, std::uint32_t before);
  void join(const Knowledge& other);
  /// Joins the entries whose run `keep(slot)` accepts.
  template <class F>
  void join_if(const Knowledge& other, F keep) {
    for (const Entry& e : other.entries_)
      if (keep(e.slot)) join_entry(e);
  }
  bool covers(Stamp stamp) const {
    for (const Entry& e : entries_)
      if (e.slot == stamp.slot()) return e.covers(stamp);
    return false;
  }
  bool empty() const { return entries_.empty(); }
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    std::uint32_t slot, all_before;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> threads;  // thread, before
    bool covers(Stamp stamp) const {
      if (stamp.time() < all_before) return true;
      if (stamp.reach() != 0) return false;  // several readers: only a barrier of theirs covers them
      for (const auto& [thread, before] : threads)
        if (thread == stamp.thread()) return stamp.time() < before;
      return false;
    }
  };
  Entry& entry(std::uint32_t slot);
  void join_entry(const Entry& other);
  std::vector<Entry> entries_;
};

}  // namespace musaic::simt
