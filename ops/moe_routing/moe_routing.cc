#include "ops/moe_routing/moe_routing.h"

#include <cmath>

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/moe_routing/args.h"

namespace musaic {
namespace {

/// What all routers take. `shared` slots of each row belong to no expert of the input.
MoeRoutingArgs common(Check& check, const Tensor& weights, const char* ids_name, const Tensor& ids,
                      const char* input_name, const Tensor& input, const char* bias_name, const Tensor& bias,
                      std::int64_t shared) {
  Dim num_tokens("num_tokens"), num_experts("num_experts"), topk("topk");
  check.tensor(input_name, input)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&num_tokens, &num_experts})
      .last_dim_contiguous()
      .aligned();
  check.tensor("topk_weights", weights)
      .dtype({kFloat32})
      .shape({&num_tokens, &topk})
      .last_dim_contiguous()
      .aligned();
  check.tensor(ids_name, ids)
      .dtype({kInt32, kInt64})
      .shape({&num_tokens, &topk})
      .last_dim_contiguous()
      .aligned();
  if (bias) {
    check.tensor(bias_name, bias)
        .dtype({kFloat32, kFloat16, kBFloat16})
        .shape({&num_experts})
        .contiguous()
        .aligned();
    check.no_overlap("topk_weights", weights, bias_name, bias, false);
    check.no_overlap(ids_name, ids, bias_name, bias, false);
  }
  check.no_overlap("topk_weights", weights, input_name, input, false);
  check.no_overlap(ids_name, ids, input_name, input, false);
  check.no_overlap("topk_weights", weights, ids_name, ids, false);
  check.that(shared >= 0 && shared <= topk, "num_fused_shared_experts", std::to_string(shared),
             "0 to topk = " + std::to_string(topk.value()));
  check.that(num_experts <= 0x7fffffff - topk, input_name, std::to_string(num_experts.value()) + " experts",
             "fewer than 2^31");
  check.that(topk - shared <= num_experts, "topk_weights",
             std::to_string(topk - shared) + " routed experts a token",
             "at most num_experts = " + std::to_string(num_experts.value()));

  MoeRoutingArgs args{};
  args.weights = rows_of(check.op(), "topk_weights", weights);
  args.ids = rows_of(check.op(), ids_name, ids);
  args.input = rows_of(check.op(), input_name, input);
  args.dtype = float_kind(input.dtype());
  if (bias) {
    args.bias = bias.data();
    args.bias_dtype = float_kind(bias.dtype());
  }
  args.id_bytes = static_cast<std::int32_t>(size_bytes(ids.dtype()));
  args.scale = 1.0f;
  args.num_tokens = num_tokens;
  args.num_experts = num_experts;
  args.num_routed = topk - shared;
  args.num_shared = shared;
  args.num_groups = args.kept_groups = 1;
  return args;
}

void run(Check& check, void (*OpTable::*op)(const MoeRoutingArgs&, Stream), const MoeRoutingArgs& args,
         Stream stream) {
  const Backend backend = enter(check.device());
  if (args.num_tokens > 0 && args.num_routed + args.num_shared > 0)
    launch(backend, op, check.op(), args, stream);
}

}  // namespace

void topk_softmax(const Tensor& topk_weights, const Tensor& topk_indices, const Tensor& gating_output,
                  const Tensor& correction_bias, bool renormalize, double moe_softcapping, Stream stream) {
  Check check("topk_softmax");
  MoeRoutingArgs args = common(check, topk_weights, "topk_indices", topk_indices, "gating_output",
                               gating_output, "correction_bias", correction_bias, 0);
  check.that(std::isfinite(static_cast<float>(moe_softcapping)) && moe_softcapping >= 0, "moe_softcapping",
             std::to_string(moe_softcapping), "a finite number of 0 or more");
  args.softmax = true;
  args.renormalize = renormalize;
  args.soft_cap = static_cast<float>(moe_softcapping);
  run(check, &OpTable::topk_softmax, args, stream);
}

void topk_sigmoid(const Tensor& topk_weights, const Tensor& topk_indices, const Tensor& gating_output,
                  const Tensor& correction_bias, bool renormalize, Stream stream) {
  Check check("topk_sigmoid");
  MoeRoutingArgs args = common(check, topk_weights, "topk_indices", topk_indices, "gating_output",
                               gating_output, "correction_bias", correction_bias, 0);
  args.renormalize = renormalize;
  run(check, &OpTable::topk_sigmoid, args, stream);
}

void moe_fused_gate(const Tensor& topk_weights, const Tensor& topk_ids, const Tensor& input,
                    const Tensor& bias, std::int64_t num_expert_group, std::int64_t topk_group,
                    std::int64_t num_fused_shared_experts, double routed_scaling_factor,
                    bool apply_routed_scaling_factor_on_output, Stream stream) {
  Check check("moe_fused_gate");
  check.that(static_cast<bool>(bias), "bias", "no tensor", "a tensor");
  MoeRoutingArgs args = common(check, topk_weights, "topk_ids", topk_ids, "input", input, "bias", bias,
                               num_fused_shared_experts);
  const std::int64_t experts = args.num_experts;
  check.that(num_expert_group >= 1 && experts % num_expert_group == 0, "num_expert_group",
             std::to_string(num_expert_group), "a divisor of num_experts = " + std::to_string(experts));
  check.that(topk_group >= 1 && topk_group <= num_expert_group, "topk_group", std::to_string(topk_group),
             "1 to num_expert_group = " + std::to_string(num_expert_group));
  check.that(args.num_routed <= topk_group * (experts / num_expert_group), "topk_weights",
             std::to_string(args.num_routed) + " routed experts a token",
             "at most the " + std::to_string(topk_group * (experts / num_expert_group)) +
                 " experts of topk_group groups");
  const float factor = static_cast<float>(routed_scaling_factor);
  check.that(std::isfinite(factor) && (num_fused_shared_experts == 0 || factor != 0), "routed_scaling_factor",
             std::to_string(routed_scaling_factor), "a finite number, not 0 with shared experts");
  args.round_scores = true;
  args.renormalize = true;
  args.num_groups = num_expert_group;
  args.kept_groups = topk_group;
  args.scale = apply_routed_scaling_factor_on_output ? factor : 1.0f;
  args.shared_weight = apply_routed_scaling_factor_on_output || factor == 0 ? 1.0f : 1.0f / factor;
  run(check, &OpTable::moe_fused_gate, args, stream);
}

void kimi_k2_moe_fused_gate(const Tensor& topk_weights, const Tensor& topk_ids, const Tensor& input,
                            const Tensor& bias, bool renormalize, double routed_scaling_factor,
                            bool apply_routed_scaling_factor_on_output, Stream stream) {
  Check check("kimi_k2_moe_fused_gate");
  check.that(static_cast<bool>(bias), "bias", "no tensor", "a tensor");
  MoeRoutingArgs args = common(check, topk_weights, "topk_ids", topk_ids, "input", input, "bias", bias, 0);
  const float factor = static_cast<float>(routed_scaling_factor);
  check.that(std::isfinite(factor), "routed_scaling_factor", std::to_string(routed_scaling_factor),
             "a finite number");
  args.renormalize = renormalize;
  if (renormalize && apply_routed_scaling_factor_on_output) args.scale = factor;
  run(check, &OpTable::kimi_k2_moe_fused_gate, args, stream);
}

}  // namespace musaic
