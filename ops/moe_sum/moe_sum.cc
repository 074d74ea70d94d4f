#include "ops/moe_sum/moe_sum.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/moe_sum/args.h"

namespace musaic {
namespace {

void run(Check& check, void (*OpTable::*op)(const MoeSumArgs&, Stream), const Tensor& out,
         const Tensor& input, const Tensor& weights, float factor, Stream stream) {
  Dim num_tokens("num_tokens"), topk("topk"), hidden_size("hidden_size");
  check.tensor("input", input)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&num_tokens, &topk, &hidden_size})
      .last_dim_contiguous()
      .aligned();
  check.tensor("out", out)
      .same_dtype("input", input)
      .shape({&num_tokens, &hidden_size})
      .last_dim_contiguous()
      .aligned();
  // Each element of slot 0 is read before it is written.
  const bool is_slot_0 = topk > 0 && out.data() == input.data() &&
                         (num_tokens < 2 || out.stride(0) == input.stride(0)) &&
                         (topk < 2 || input.stride(1) >= hidden_size || input.stride(1) <= -hidden_size);
  if (!is_slot_0) check.no_overlap("out", out, "input", input, false);
  MoeSumArgs args{};
  if (weights) {
    check.tensor("topk_weights", weights)
        .dtype({kFloat32})
        .shape({&num_tokens, &topk})
        .last_dim_contiguous()
        .aligned();
    check.no_overlap("out", out, "topk_weights", weights, false);
    args.weights = rows_of(check.op(), "topk_weights", weights);
  }
  args.out = rows_of(check.op(), "out", out);
  args.input = input.data();
  args.dtype = float_kind(input.dtype());
  args.num_tokens = num_tokens;
  args.topk = topk;
  args.hidden_size = hidden_size;
  args.token_stride = input.stride(0);
  args.slot_stride = input.stride(1);
  args.factor = factor;
  const Backend backend = enter(check.device());
  if (args.num_tokens > 0 && args.hidden_size > 0) launch(backend, op, check.op(), args, stream);
}

}  // namespace

void moe_sum(const Tensor& out, const Tensor& input, Stream stream) {
  Check check("moe_sum");
  run(check, &OpTable::moe_sum, out, input, {}, 1.0f, stream);
}

void moe_sum_reduce(const Tensor& out, const Tensor& input, const Tensor& topk_weights,
                    double routed_scaling_factor, Stream stream) {
  Check check("moe_sum_reduce");
  run(check, &OpTable::moe_sum_reduce, out, input, topk_weights, static_cast<float>(routed_scaling_factor),
      stream);
}

}  // namespace musaic
