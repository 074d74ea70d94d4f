// Which experts a token goes to, and how much each of them counts.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

// Experts are ordered by their value, descending, then by their number, ascending; -0 equals +0. The chosen ones stand
// in that order, so ids of a row are always distinct and in range. A NaN comes after -infinity: a row with a NaN among
// its values gets the order of the others, then the lowest of the NaN experts, and 0 as every weight. T: number of
// tokens, E: number of experts, any of 1 to 2^31 - 1; K: slots of a token.
//
// All arithmetic is float32. Sums over all experts are those of a row (docs/design.md); sums over chosen experts begin at
// 0 and add in the order of the slots.

/// Softmax over all experts, and the K largest of it:
///
///     z_e = cap(x_e) + bias_e,  cap(x) = c tanh(x / c) for c = moe_softcapping, x itself for c = 0
///     g_e = e^(z_e - max z), 1 where z_e = max z
///     topk_weights = g / (sum of g over all experts), or over the chosen ones with `renormalize`
///
/// \param topk_weights     [T, K], float32, rows may be strided
/// \param topk_indices     [T, K], int32 or int64, rows may be strided; K <= E
/// \param gating_output    [T, E], float32, float16 or bfloat16, rows may be strided
/// \param correction_bias  [E], float32, float16 or bfloat16, or not given; counts in the weights
/// \param moe_softcapping  finite, not negative
///
/// Tier: exact. Values are ordered by z. Of several +infinities each counts 1 and every other expert 0.
void topk_softmax(const Tensor& topk_weights, const Tensor& topk_indices, const Tensor& gating_output,
                  const Tensor& correction_bias = {}, bool renormalize = false, double moe_softcapping = 0.0,
                  Stream stream = {});

/// The K largest of s_e + bias_e with s_e = 1 / (1 + e^-x_e). topk_weights = s, without the bias, divided by their sum
/// with `renormalize`; a sum of 0 gives 0.
///
/// \param topk_weights ... correction_bias   as topk_softmax; the bias decides the choice alone
///
/// Tier: exact.
void topk_sigmoid(const Tensor& topk_weights, const Tensor& topk_indices, const Tensor& gating_output,
                  const Tensor& correction_bias = {}, bool renormalize = false, Stream stream = {});

/// The largest of the kept groups of experts. With D the dtype of `input`:
///
///     s_e = round_D(1 / (1 + e^-x_e)),  b_e = round_D(s_e + bias_e)
///     score of a group = the sum of its two largest b (a NaN counts as -infinity), or its only b
///     kept: the topk_group largest scores, equal ones by the lower group
///     chosen: the K - S largest b in the kept groups; weight s / (sum of the chosen s), 0 where that sum is 0
///
/// The last S slots are the shared experts E, E + 1, ... of weight 1 / routed_scaling_factor. With
/// `apply_routed_scaling_factor_on_output` weights are multiplied by the factor, so that of a shared expert is 1.
///
/// \param topk_weights              [T, K], float32, rows may be strided
/// \param topk_ids                  [T, K], int32 or int64, rows may be strided; K - S <= topk_group * E / G
/// \param input                     [T, E], float32, float16 or bfloat16, rows may be strided
/// \param bias                      [E], float32, float16 or bfloat16
/// \param num_expert_group          G, which divides E; group g is the experts g E / G ... (g + 1) E / G - 1
/// \param topk_group                1 to G
/// \param num_fused_shared_experts  S, 0 to K
/// \param routed_scaling_factor     finite; not 0 with shared experts
///
/// Tier: exact.
void moe_fused_gate(const Tensor& topk_weights, const Tensor& topk_ids, const Tensor& input,
                    const Tensor& bias, std::int64_t num_expert_group, std::int64_t topk_group,
                    std::int64_t num_fused_shared_experts = 0, double routed_scaling_factor = 0.0,
                    bool apply_routed_scaling_factor_on_output = false, Stream stream = {});

/// The K largest of s_e + bias_e with s_e = 1 / (1 + e^-x_e), in float32 whatever the dtypes. Weights are s; with
/// `renormalize` s / (sum of the chosen s), 0 where that sum is 0, and then times routed_scaling_factor if
/// `apply_routed_scaling_factor_on_output`. Without `renormalize` the factor has no effect.
///
/// \param topk_weights ... bias   as moe_fused_gate; K <= E
///
/// Tier: exact.
void kimi_k2_moe_fused_gate(const Tensor& topk_weights, const Tensor& topk_ids, const Tensor& input,
                            const Tensor& bias, bool renormalize = true, double routed_scaling_factor = 1.0,
                            bool apply_routed_scaling_factor_on_output = false, Stream stream = {});

}  // namespace musaic
