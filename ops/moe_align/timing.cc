#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> moe_align_timings() {
  std::vector<Timing> all;
  for (const std::int64_t experts : {128, 256})
    for (const std::int64_t tokens : {1, 512, 4096, 16384}) {
      constexpr std::int64_t kBlock = 64;
      const std::int64_t n = tokens * 8, slots = experts + 1, room = n + slots * (kBlock - 1);
      all.push_back({"moe_align_block_size", to_text({tokens, 8}) + "_" + std::to_string(experts) + "experts",
                     kInt32, [=](Call& call) {
                       call.output(kInt32, {room});
                       call.output(kInt32, {room / kBlock + 1});
                       call.output(kInt32, {1});
                       call.pattern(kInt32, {tokens, 8},
                                    [=](std::int64_t i) { return static_cast<double>(i * 7919 % experts); });
                       call.scalar(slots);
                       call.scalar(kBlock);
                       call.scalar(true);
                       call.scalar(false);
                       call.set_workspace(moe_align_block_size_workspace_bytes(n, slots));
                     }});
    }
  return all;
}

}  // namespace musaic::checks
