// Sorting tokens by expert into blocks of one expert each.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Lists the places i of `topk_ids`, counted in row-major order over its n elements, expert after expert, each expert's
/// part padded to whole blocks. With E = num_experts - 1 experts the ids are 0 ... E - 1, and -1 for a place whose
/// expert is not here; slot s is id s - 1. With c_s places in slot s, B = block_size, C_s = c_s rounded up to a
/// multiple of B and P_s = C_0 + ... + C_(s-1):
///
///     sorted_token_ids[P_s ... P_s + c_s - 1] = the places of id s - 1, ascending
///     expert_ids[b] = s - 1 for each block b in P_s / B ... (P_s + C_s) / B - 1
///     num_tokens_post_pad[0] = C_0 + C_1 + ... + C_E
///
/// \param sorted_token_ids       [M], int32, M >= L = (n + min(n, num_experts) (B - 1)) / B * B, whatever the ids
/// \param expert_ids             [N], int32, N >= L / B; entries past the last block keep their contents
/// \param num_tokens_post_pad    [1], int32
/// \param topk_ids               [n] or [num_tokens, topk], int8, uint8, int32 or int64, packed
/// \param num_experts            E + 1, at least 1
/// \param block_size             B, at least 1; L below 2^31
/// \param pad_sorted_token_ids   every entry of sorted_token_ids without a place becomes n; else those are untouched
/// \param ignore_invalid_expert  places with a negative id are left out instead of getting slot 0
/// \param workspace              moe_align_block_size_workspace_bytes(n, num_experts) bytes on a multiple of 64
///
/// Tier: exact. An id above E - 1, or one below -1 without `ignore_invalid_expert`, is left out and recorded as
/// DeviceFault::kIndexOutOfRange with its place as the row; nothing is written for it, and all other places are listed
/// as if it were not there.
void moe_align_block_size(const Tensor& sorted_token_ids, const Tensor& expert_ids,
                          const Tensor& num_tokens_post_pad, const Tensor& topk_ids, std::int64_t num_experts,
                          std::int64_t block_size, bool pad_sorted_token_ids = true,
                          bool ignore_invalid_expert = false, Stream stream = {}, Workspace workspace = {});

std::int64_t moe_align_block_size_workspace_bytes(std::int64_t num_ids, std::int64_t num_experts);

}  // namespace musaic
