// Drawing tokens from logits or probabilities with top-k, top-p and min-p, in exact integer arithmetic.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Draws tokens[b] from row indices[b] of `logits` (row b without `indices`), in proportion to w =
/// floor(e^((x - max) / T) * 2^40) over the entries that all filters keep.
///
/// \param tokens       [B], int32 or int64: always an index in [0, V)
/// \param valid        [B], bool or uint8, or no tensor: 1, or 0 for an invalid row, whose token is 0
/// \param logits       [N, V], float32, float16 or bfloat16, last dimension contiguous, rows may be strided;
///                     1 <= V <= 2^22; not modified
/// \param indices      [B], int32 or int64, each in [0, N), repeats allowed; no tensor: B = N, row b
/// \param seed         [B], int64: the key of output b's random numbers
/// \param offset       [B], int64: its position in that stream, one step a token
/// \param subsequence  [B], int64, or no tensor for zeros: separates outputs that share seed and offset
/// \param temperature  [N], float32: of each row of `logits`; no tensor: `temperature_scalar` for all
/// \param top_k        [N], int32 or int64; no tensor: `top_k_scalar`
/// \param top_p        [N], float32; no tensor: `top_p_scalar`
/// \param min_p        [N], float32; no tensor: `min_p_scalar`
/// \param temperature_scalar, top_p_scalar, min_p_scalar  rounded to float32; not NaN
/// \param top_k_first  what top-p is a share of: false, of the row's mass (both filters look at the original
///                     distribution); true, of the mass that top-k left
/// \param workspace    sampling_workspace_bytes() bytes
///
/// Vectors may have any stride, 0 included. Parameters are indexed by the row of `logits`, the random state
/// by the output.
///
/// Tier: exact, the token included. e is the one of softmax(). Entries are ordered by value descending, then
/// index ascending. top-k keeps the first k; k <= 0 or k >= V: all. top-p keeps an entry iff the mass before
/// it is below max(1, ceil(top_p * mass)); >= 1: all, <= 0: the first. min-p keeps an entry iff e >= min_p
/// (that is, its probability is at least min_p times the largest); <= 0: all, above 1 as 1. A temperature
/// below 2^-126 takes the row's argmax. An entry of weight 0 is never drawn.
///
/// Random numbers: r_0, r_1, ... are 64-bit halves, low one first, of Philox-4x32-10 blocks with key `seed`
/// and counter (8 * offset + block mod 2^64, subsequence). With 1 <= k < V: u = high 64 bits of r_0 * (kept
/// mass), the token is the first kept index whose inclusive prefix of kept weights exceeds u. Otherwise
/// candidates 0 ... 7 are drawn so from the whole row with r_0 ... r_7, and the first that the filters keep
/// is the token; if none is, r_8 draws from the kept entries. Both give the same distribution.
///
/// Invalid rows: a NaN or +infinity, no finite entry, a NaN parameter, or an index outside [0, N), which is
/// also reported as a device fault. Other rows are not affected. B = 0 writes nothing.
///
/// Source of the generator: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
void sampling_from_logits(const Tensor& tokens, const Tensor& valid, const Tensor& logits,
                          const Tensor& indices, const Tensor& seed, const Tensor& offset,
                          const Tensor& subsequence = {}, const Tensor& temperature = {},
                          const Tensor& top_k = {}, const Tensor& top_p = {}, const Tensor& min_p = {},
                          double temperature_scalar = 1, std::int64_t top_k_scalar = 0,
                          double top_p_scalar = 1, double min_p_scalar = 0, bool top_k_first = false,
                          Stream stream = {}, Workspace workspace = {});

/// As sampling_from_logits, from probabilities, which need not sum to 1.
///
/// \param probs  [N, V], float32, float16 or bfloat16, entries >= 0, last dimension contiguous, rows may be
///               strided; 1 <= V <= 2^22; not modified
///
/// w = floor(p * 2^(40 - E)), where E is 0 while the row's largest entry is in [2^-24, 1], else the smallest
/// multiple of 24 with largest <= 2^E. min-p keeps an entry iff p >= fl(min_p * largest). Invalid rows: a
/// NaN, negative or infinite entry, no positive entry, a NaN parameter, an index outside [0, N).
void sampling_from_probs(const Tensor& tokens, const Tensor& valid, const Tensor& probs,
                         const Tensor& indices, const Tensor& seed, const Tensor& offset,
                         const Tensor& subsequence = {}, const Tensor& top_k = {}, const Tensor& top_p = {},
                         const Tensor& min_p = {}, std::int64_t top_k_scalar = 0, double top_p_scalar = 1,
                         double min_p_scalar = 0, bool top_k_first = false, Stream stream = {},
                         Workspace workspace = {});

/// renorm_probs = p / sum of the kept p for the first k entries of the order, 0 elsewhere.
///
/// \param renorm_probs  [B, V], dtype of `probs`, last dimension contiguous; may be the very same view as `probs`
/// \param probs         [B, V], float32, float16 or bfloat16, entries >= 0 of any sum, last dimension contiguous, rows may
///                      be strided; V <= 2^22
/// \param top_k         [B], int32 or int64, any stride; no tensor: `top_k_scalar`; <= 0 or >= V: all entries
///
/// Tier: exact. Weights, order and edge values are those of sampling_from_probs. An entry is kept iff it is among the
/// first k and has a weight; q = p * 2^-E, S = the kept mass * 2^-40 rounded to float32, out = q / S rounded to float32,
/// then to the dtype. A row with a NaN, a negative or an infinite entry, or a NaN parameter, gives NaNs in that row alone;
/// one without a positive entry gives zeros. B = 0 writes nothing.
void top_k_renorm_probs(const Tensor& renorm_probs, const Tensor& probs, const Tensor& top_k = {},
                        std::int64_t top_k_scalar = 0, Stream stream = {});

/// As top_k_renorm_probs, for the entries that top-p keeps: those before which the mass is below
/// max(1, ceil(top_p * mass)).
///
/// \param top_p  [B], float32, any stride; no tensor: `top_p_scalar`; >= 1: all entries, <= 0: the first of the order
void top_p_renorm_probs(const Tensor& renorm_probs, const Tensor& probs, const Tensor& top_p = {},
                        double top_p_scalar = 1, Stream stream = {});

/// mask_logits = logits for the first k entries of the order, -infinity elsewhere.
///
/// \param mask_logits  [B, V], dtype of `logits`, last dimension contiguous; may be the very same view as `logits`
/// \param logits       [B, V], float32, float16 or bfloat16, last dimension contiguous, rows may be strided; V <= 2^22
/// \param top_k        [B], int32 or int64, any stride; no tensor: `top_k_scalar`; <= 0 or >= V: all entries
///
/// Tier: exact. Infinities are values like others. A NaN is no entry of the order and stays a NaN, so that a later
/// softmax tells of it.
void top_k_mask_logits(const Tensor& mask_logits, const Tensor& logits, const Tensor& top_k = {},
                       std::int64_t top_k_scalar = 0, Stream stream = {});

/// Scratch memory that the two sampling operators need for B outputs over V entries; 0 on the CPU.
std::int64_t sampling_workspace_bytes(std::int64_t num_outputs, std::int64_t vocab_size, Device device = {});

}  // namespace musaic
