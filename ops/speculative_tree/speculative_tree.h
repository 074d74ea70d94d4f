// Speculative decoding with trees of draft tokens: building a tree, verifying it, packing its masks.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

// B requests have trees of D nodes each; node 0 is the root, the last verified token. Flat number: b * D + i. A tree is
// stored by links: retrive_next_token[b, i] is the first child of node i, retrive_next_sibling[b, i] the next child of
// its parent, -1 for none; both count within the request. The spelling is that of the engines' interface. All tensors
// are packed; every integer tensor is int32 or int64, each by itself.

/// Links, positions and mask of draft trees. The parent of node i >= 1, whose candidate number is
/// c = selected_index[b, i - 1], is the root if c < topk, else the node whose candidate number is
/// parent_list[b, c / topk].
///
/// \param parent_list           [B, P], P = topk * (depth - 1) + 1
/// \param selected_index        [B, D - 1]
/// \param verified_seq_len      [B], not negative
/// \param tree_mask             see tree_mask_mode; bool or uint8
/// \param positions             [B * D]: verified_seq_len[b] + depth of the node
/// \param retrive_index         [B, D]: the flat numbers
/// \param retrive_next_token    [B, D], all entries written; children in rising order
/// \param retrive_next_sibling  [B, D], likewise
/// \param tree_mask_mode  column j of row i is true iff j is i or an ancestor of i.
///     0: request b owns D rows of verified_seq_len[b] + D entries, one request after the other; the last D entries of
///     each row are written. 1: [B, D, D], all written. 2: D <= 32; a row is 1, 2 or 4 bytes for D <= 8, 16, 32, bit j
///     of the little-endian number is column j, all written.
///
/// Tier: exact. A node whose parent is not among the selected, or whose ancestors form a circle, is linked from
/// nowhere, and recorded as DeviceFault::kIndexOutOfRange with its flat number as the row: its mask row holds the root
/// and itself, its position is that of a child of the root. Lengths that do not fit tree_mask are recorded too; no
/// mask is written then for that request. Other requests are not affected.
void build_tree_kernel_efficient(const Tensor& parent_list, const Tensor& selected_index,
                                 const Tensor& verified_seq_len, const Tensor& tree_mask,
                                 const Tensor& positions, const Tensor& retrive_index,
                                 const Tensor& retrive_next_token, const Tensor& retrive_next_sibling,
                                 std::int64_t topk, std::int64_t depth, std::int64_t draft_token_num,
                                 std::int64_t tree_mask_mode, Stream stream = {});

/// Links and positions from masks: the parent of node i is the largest j < i with tree_mask[b, i, j].
///
/// \param tree_mask             [B, D, D], bool or uint8; column j of row i is true for ancestors of i
/// \param verified_seq_len      [B]
/// \param positions             [B * D]: verified_seq_len[b] + #{j < i : tree_mask[b, i, j]}
/// \param retrive_index         [B, D]: the flat numbers
/// \param retrive_next_token    [B, D]: the smallest child, or -1
/// \param retrive_next_sibling  [B, D]: the next node of the same parent, or -1; -1 for a node without parent
///
/// Tier: exact. Any mask gives links that end: they lead to higher numbers only.
void reconstruct_indices_from_tree_mask(const Tensor& tree_mask, const Tensor& verified_seq_len,
                                        const Tensor& positions, const Tensor& retrive_index,
                                        const Tensor& retrive_next_token, const Tensor& retrive_next_sibling,
                                        std::int64_t batch_size, std::int64_t draft_token_num,
                                        Stream stream = {});

/// Follows each tree as long as a child holds the token that the target model predicts: the first such child in the
/// order of the links. At most S - 1 tokens are accepted.
///
/// \param predicts              [N], N >= B * D: at the flat number of each node on the path the token after it, the
///                              target's own at the last; other entries keep their contents
/// \param accept_index          [B, S]: the flat numbers on the path, the root first; the rest keeps its contents
/// \param accept_token_num      [B]: how many draft tokens were accepted
/// \param candidates            [B, D]; a negative token is never accepted
/// \param retrive_index         [B, D], values in [0, B * D)
/// \param retrive_next_token    [B, D]
/// \param retrive_next_sibling  [B, D]
/// \param target_predict        [B, D], read at the flat number
///
/// Tier: exact. A link outside the tree, or the D-th step of a walk (links in a circle), ends the walk there and is
/// recorded as DeviceFault::kIndexOutOfRange with its flat number as the row.
void verify_tree_greedy(const Tensor& predicts, const Tensor& accept_index, const Tensor& accept_token_num,
                        const Tensor& candidates, const Tensor& retrive_index,
                        const Tensor& retrive_next_token, const Tensor& retrive_next_sibling,
                        const Tensor& target_predict, Stream stream = {});

/// Follows each tree by coins, so that with thresholds of 1 every token has the target's distribution. At a node with
/// coin u, its children in the order of the links add up sigma = sum of floor(p * 2^40), p the target's probability of
/// the child's token; a child is accepted iff u * threshold_acc * 2^40 < sigma or p >= threshold_single. The last
/// token is drawn from max(target - draft, 0), or the target alone once S - 1 tokens were accepted, at the last node
/// without its rejected children, by integer weights floor(x * 2^(40 - E)): the first index whose inclusive prefix
/// exceeds floor(v * sum), v the final coin; V - 1 if nothing is left.
///
/// \param predicts ... retrive_next_sibling   as verify_tree_greedy; tokens outside [0, V) are never accepted
/// \param uniform_samples                     [B, D], float32 in [0, 1): a node's coin for its children
/// \param uniform_samples_for_final_sampling  [B], float32 in [0, 1)
/// \param target_probs      [B, D, V], float32, float16 or bfloat16, rows of sum 1, 1 <= V <= 2^22
/// \param draft_probs       [B, D, V], target_probs' dtype, or not given: zeros
/// \param threshold_single  in [0, 1]; at 0 every child is accepted
/// \param threshold_acc     in [0, 1]; below 1e-9 it counts as that
/// \param deterministic     has no effect: the result always is
/// \param mark_rejected     also writes the target's probability of each rejected token into draft_probs
///
/// Tier: exact. A NaN, an infinite or a negative entry has weight 0. A token of weight 0 is never drawn, nor accepted
/// by its coin. Siblings should hold distinct tokens: a repeated one counts twice. Malformed links as in
/// verify_tree_greedy.
void tree_speculative_sampling_target_only(const Tensor& predicts, const Tensor& accept_index,
                                           const Tensor& accept_token_num, const Tensor& candidates,
                                           const Tensor& retrive_index, const Tensor& retrive_next_token,
                                           const Tensor& retrive_next_sibling, const Tensor& uniform_samples,
                                           const Tensor& uniform_samples_for_final_sampling,
                                           const Tensor& target_probs, const Tensor& draft_probs,
                                           double threshold_single = 1.0, double threshold_acc = 1.0,
                                           bool deterministic = true, bool mark_rejected = false,
                                           Stream stream = {});

/// Packs flags into bytes, each segment by itself: flag i of segment s becomes bit i % 8 of
/// y[output_indptr[s] + i / 8]; bits past a segment's end are 0.
///
/// \param x              [n], bool or uint8: zero or not
/// \param input_indptr   [batch_size + 1]: segment s is x[input_indptr[s] : input_indptr[s + 1]]
/// \param output_indptr  [batch_size + 1], with ceil(length / 8) bytes or more for each segment
/// \param y              [m], uint8; bytes that no segment covers keep their contents
///
/// Tier: exact. A segment that falls, leaves x or y, or has too few bytes is left unwritten and recorded as
/// DeviceFault::kIndexOutOfRange with the segment as the row.
void segment_packbits(const Tensor& x, const Tensor& input_indptr, const Tensor& output_indptr,
                      const Tensor& y, std::int64_t batch_size, Stream stream = {});

}  // namespace musaic
