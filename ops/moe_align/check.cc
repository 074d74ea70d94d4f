#include "cli/check/check.h"

#include "ops/moe_align/reference.h"

namespace musaic::checks {

std::vector<Case> moe_align_cases() {
  std::vector<Case> cases;
  for (const std::int64_t tokens : {1, 37, 700})
    for (const std::int64_t experts : {4, 257, 2000})
      cases.push_back(
          {"moe_align_block_size", std::to_string(tokens) + "x8 over " + std::to_string(experts), kInt32,
           Tier::kExact, "0", [=](Call& call) {
             constexpr std::int64_t kBlock = 16;
             const std::int64_t n = tokens * 8, slots = experts + 1, room = n + slots * (kBlock - 1);
             const int sorted = call.output(kInt32, {room}),
                       blocks = call.updated(kInt32, {room / kBlock + 1}), total = call.output(kInt32, {1});
             const int in = call.input(kInt32, {tokens, 8}, [&](std::int64_t) {
               return static_cast<double>(call.uniform_int(-1, experts - 1));
             });
             call.scalar(slots);
             call.scalar(kBlock);
             call.scalar(true);
             call.scalar(false);
             call.set_workspace(moe_align_block_size_workspace_bytes(n, slots));
             std::vector<std::int64_t> ids;
             for (const double id : call.values(in)) ids.push_back(static_cast<std::int64_t>(id));
             const reference::Aligned a = reference::moe_align(ids, slots, kBlock, false);
             Expected s{sorted, {}, {}}, t{total, {static_cast<double>(a.sorted.size())}, {0}},
                 e{blocks, {}, {}};
             for (std::size_t i = 0; i < static_cast<std::size_t>(room); ++i)
               s.values.push_back(
                   static_cast<double>(i < a.sorted.size() && a.sorted[i] >= 0 ? a.sorted[i] : n));
             // Entries past the last block keep what they held.
             const std::vector<double> before = call.values(blocks);
             for (std::size_t b = 0; b < static_cast<std::size_t>(room / kBlock + 1); ++b)
               e.values.push_back(b < a.experts.size() ? static_cast<double>(a.experts[b]) : before[b]);
             s.tolerance = no_tolerance(s.values);
             e.tolerance = no_tolerance(e.values);
             return std::vector<Expected>{s, e, t};
           }});
  return cases;
}

}  // namespace musaic::checks
