#include "backends/simt/knowledge.h"

#include <algorithm>

namespace musaic::simt {
namespace {

void add_thread(std::vector<std::pair<std::uint32_t, std::uint32_t>>& threads, std::uint32_t thread,
                std::uint32_t before) {
  for (auto& [t, b] : threads)
    if (t == thread) {
      b = std::max(b, before);
      return;
    }
  threads.emplace_back(thread, before);
}

}  // namespace

Knowledge::Entry& Knowledge::entry(std::uint32_t slot) {
  for (Entry& e : entries_)
    if (e.slot == slot) return e;
  return entries_.emplace_back(Entry{slot, 0, {}});
}

void Knowledge::add(std::uint32_t slot, std::uint32_t all_before, std::uint32_t thread,
                    std::uint32_t before) {
  Entry& e = entry(slot);
  e.all_before = std::max(e.all_before, all_before);
  if (before > e.all_before) add_thread(e.threads, thread, before);
}

void Knowledge::join_entry(const Entry& other) {
  Entry& e = entry(other.slot);
  e.all_before = std::max(e.all_before, other.all_before);
  for (const auto& [thread, before] : other.threads)
    if (before > e.all_before) add_thread(e.threads, thread, before);
}

void Knowledge::join(const Knowledge& other) {
  for (const Entry& e : other.entries_) join_entry(e);
}

}  // namespace musaic::simt
