#include "ops/moe_align/moe_align.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/moe_align/args.h"

namespace musaic {
namespace {

constexpr std::int64_t kMost = 0x7fffffff;

std::int64_t scratch_bytes(std::int64_t num_ids, std::int64_t num_slots) {
  const std::int64_t words = moe_align_plan(num_ids).num_tiles * num_slots + 2 * num_slots + 1;
  return (4 * words + 63) / 64 * 64;
}

}  // namespace

std::int64_t moe_align_block_size_workspace_bytes(std::int64_t num_ids, std::int64_t num_experts) {
  if (num_ids < 0 || num_ids > kMost)
    throw Error("moe_align_block_size_workspace_bytes", "num_ids", std::to_string(num_ids), "0 to 2^31 - 1");
  if (num_experts < 1 || num_experts > kMost)
    throw Error("moe_align_block_size_workspace_bytes", "num_experts", std::to_string(num_experts),
                "1 to 2^31 - 1");
  return scratch_bytes(num_ids, num_experts);
}

void moe_align_block_size(const Tensor& sorted_token_ids, const Tensor& expert_ids,
                          const Tensor& num_tokens_post_pad, const Tensor& topk_ids, std::int64_t num_experts,
                          std::int64_t block_size, bool pad_sorted_token_ids, bool ignore_invalid_expert,
                          Stream stream, Workspace workspace) {
  static constexpr FaultSite kSite{"moe_align_block_size", "topk_ids"};
  Check check(kSite.op);
  Dim sorted_size("sorted_size"), num_blocks("num_blocks"), one("one", 1, "the operator");
  check.tensor("topk_ids", topk_ids).dtype({kInt32, kInt64, kInt8, kUInt8}).rank(1, 2).contiguous().aligned();
  check.tensor("sorted_token_ids", sorted_token_ids)
      .dtype({kInt32})
      .shape({&sorted_size})
      .contiguous()
      .aligned();
  check.tensor("expert_ids", expert_ids).dtype({kInt32}).shape({&num_blocks}).contiguous().aligned();
  check.tensor("num_tokens_post_pad", num_tokens_post_pad).dtype({kInt32}).shape({&one}).aligned();
  check.that(num_experts >= 1 && num_experts <= kMost, "num_experts", std::to_string(num_experts),
             "1 to 2^31 - 1");
  check.that(block_size >= 1 && block_size <= kMost, "block_size", std::to_string(block_size),
             "1 to 2^31 - 1");
  const std::int64_t n = topk_ids.numel(), used = n < num_experts ? n : num_experts;
  check.that(n <= kMost, "topk_ids", std::to_string(n) + " elements", "fewer than 2^31");
  const std::int64_t most_blocks = (n + used * (block_size - 1)) / block_size;
  check.that(most_blocks <= kMost / block_size, "block_size", std::to_string(block_size),
             "fewer than 2^31 padded places");
  check.that(sorted_size >= most_blocks * block_size, "sorted_token_ids",
             "shape [" + std::to_string(sorted_size.value()) + "]",
             "at least " + std::to_string(most_blocks * block_size) + " entries");
  check.that(num_blocks >= most_blocks, "expert_ids", "shape [" + std::to_string(num_blocks.value()) + "]",
             "at least " + std::to_string(most_blocks) + " entries");
  check.no_overlap("sorted_token_ids", sorted_token_ids, "topk_ids", topk_ids, false);
  check.no_overlap("expert_ids", expert_ids, "topk_ids", topk_ids, false);
  check.no_overlap("num_tokens_post_pad", num_tokens_post_pad, "topk_ids", topk_ids, false);
  check.no_overlap("sorted_token_ids", sorted_token_ids, "expert_ids", expert_ids, false);
  check.no_overlap("sorted_token_ids", sorted_token_ids, "num_tokens_post_pad", num_tokens_post_pad, false);
  check.no_overlap("expert_ids", expert_ids, "num_tokens_post_pad", num_tokens_post_pad, false);
  const std::int64_t needed = scratch_bytes(n, num_experts);
  check.that(workspace.bytes >= needed, "workspace", std::to_string(workspace.bytes) + " bytes",
             std::to_string(needed) + " bytes or more (moe_align_block_size_workspace_bytes(" +
                 std::to_string(n) + ", " + std::to_string(num_experts) + "))");
  check.that(workspace.data != nullptr, "workspace", "null data", "memory");
  check.that(reinterpret_cast<std::uintptr_t>(workspace.data) % 64 == 0, "workspace",
             "an address off a multiple of 64", "one on it");

  const Backend backend = enter(check.device());
  const MoeAlignPlan plan = moe_align_plan(n);
  MoeAlignArgs args{};
  args.ids = topk_ids.data();
  args.id_bytes = static_cast<std::int32_t>(size_bytes(topk_ids.dtype()));
  args.ids_are_unsigned = topk_ids.dtype() == kUInt8;
  args.sorted_token_ids = sorted_token_ids.data_as<std::int32_t>();
  args.expert_ids = expert_ids.data_as<std::int32_t>();
  args.num_tokens_post_pad = num_tokens_post_pad.data_as<std::int32_t>();
  args.counts = static_cast<std::int32_t*>(workspace.data);
  args.starts = args.counts + plan.num_tiles * num_experts;
  args.ends = args.starts + num_experts + 1;
  args.num_ids = n;
  args.num_slots = num_experts;
  args.block_size = block_size;
  args.sorted_size = sorted_size;
  args.num_tiles = plan.num_tiles;
  args.tile_size = plan.tile_size;
  args.pad = pad_sorted_token_ids;
  args.drop_negative = ignore_invalid_expert;
  args.bad_id = {backend.faults, &kSite};
  launch(backend, &OpTable::moe_align_block_size, check.op(), args, stream);
}

}  // namespace musaic
