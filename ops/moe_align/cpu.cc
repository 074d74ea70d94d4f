#include "backends/cpu/launch.h"
#include "ops/moe_align/core.h"

namespace musaic::MUSAIC_TARGET {

void moe_align_block_size(const MoeAlignArgs& a, Stream) {
  const auto filler = static_cast<std::int32_t>(a.num_ids);
  for (std::int64_t s = 0; s < a.num_slots; ++s) a.counts[s] = 0;
  for (std::int64_t i = 0; i < a.num_ids; ++i) {
    const std::int64_t id = id_at(a, i), slot = slot_of(a, id);
    if (slot >= 0)
      ++a.counts[slot];
    else if (is_bad(a, id))
      raise_fault(a.bad_id, DeviceFault::kIndexOutOfRange, i, id);
  }
  std::int64_t total = 0;
  for (std::int64_t s = 0; s < a.num_slots; ++s) {
    const std::int64_t count = a.counts[s], next = total + padded(a, count);
    a.counts[s] = static_cast<std::int32_t>(total);
    for (std::int64_t b = total / a.block_size; b < next / a.block_size; ++b)
      a.expert_ids[b] = static_cast<std::int32_t>(s - 1);
    if (a.pad)
      for (std::int64_t p = total + count; p < next; ++p) a.sorted_token_ids[p] = filler;
    total = next;
  }
  *a.num_tokens_post_pad = static_cast<std::int32_t>(total);
  if (a.pad)
    for (std::int64_t p = total; p < a.sorted_size; ++p) a.sorted_token_ids[p] = filler;
  for (std::int64_t i = 0; i < a.num_ids; ++i) {
    const std::int64_t slot = slot_of(a, id_at(a, i));
    if (slot >= 0) a.sorted_token_ids[a.counts[slot]++] = static_cast<std::int32_t>(i);
  }
}

}  // namespace musaic::MUSAIC_TARGET
