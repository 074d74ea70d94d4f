// Sorting by expert, from the contract.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace musaic::reference {

struct Aligned {
  std::vector<std::int64_t> sorted;   // -1: nothing belongs there
  std::vector<std::int64_t> experts;  // of the blocks
};

inline Aligned moe_align(const std::vector<std::int64_t>& ids, std::int64_t num_experts,
                         std::int64_t block_size, bool ignore_negative) {
  Aligned a;
  std::vector<std::vector<std::int64_t>> slots(static_cast<std::size_t>(num_experts));
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= (ignore_negative ? 0 : -1) && ids[i] < num_experts - 1)
      slots[static_cast<std::size_t>(ids[i] + 1)].push_back(static_cast<std::int64_t>(i));
  for (std::size_t s = 0; s < slots.size(); ++s) {
    a.sorted.insert(a.sorted.end(), slots[s].begin(), slots[s].end());
    while (a.sorted.size() % static_cast<std::size_t>(block_size) != 0) a.sorted.push_back(-1);
    a.experts.resize(a.sorted.size() / static_cast<std::size_t>(block_size),
                     static_cast<std::int64_t>(s) - 1);
  }
  return a;
}

}  // namespace musaic::reference
