#include "ops/fused_add_rmsnorm/fused_add_rmsnorm.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/fused_add_rmsnorm/args.h"

namespace musaic {
namespace {

using Launcher = void (*OpTable::*)(const FusedAddRmsnormArgs&, Stream);

void run(const char* op, Launcher launcher, const Tensor& input, const Tensor& residual, const Tensor& weight,
         double eps, float weight_offset, Stream stream) {
  Check check(op);
  check.tensor("input", input)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .rank(1, Tensor::kMaxDims)
      .last_dim_contiguous()
      .aligned();
  check.tensor("residual", residual)
      .same_dtype("input", input)
      .same_shape("input", input)
      .last_dim_contiguous()
      .aligned();
  Dim hidden_size("hidden_size", input.size(input.ndim() - 1), "input");
  if (weight)
    check.tensor("weight", weight)
        .dtype({kFloat32, kFloat16, kBFloat16})
        .shape({&hidden_size})
        .last_dim_contiguous()
        .aligned();
  if (!(eps >= 0)) check.fail("eps", std::to_string(eps), "a number >= 0");
  check.no_overlap("residual", residual, "input", input, false);
  if (weight) {
    check.no_overlap("input", input, "weight", weight, false);
    check.no_overlap("residual", residual, "weight", weight, false);
  }

  FusedAddRmsnormArgs args{};
  args.input = rows_of(op, "input", input);
  args.residual = rows_of(op, "residual", residual);
  args.weight = weight.data();
  args.dtype = float_kind(input.dtype());
  args.weight_dtype = weight ? float_kind(weight.dtype()) : FloatKind::kF32;
  args.hidden_size = hidden_size;
  args.num_rows = hidden_size > 0 ? input.numel() / hidden_size : 0;
  args.eps = static_cast<float>(eps);
  args.weight_offset = weight_offset;
  const Backend backend = enter(check.device());
  if (args.num_rows > 0) launch(backend, launcher, check.op(), args, stream);
}

}  // namespace

void fused_add_rmsnorm(const Tensor& input, const Tensor& residual, const Tensor& weight, double eps,
                       Stream stream) {
  run("fused_add_rmsnorm", &OpTable::fused_add_rmsnorm, input, residual, weight, eps, 0.0f, stream);
}

void gemma_fused_add_rmsnorm(const Tensor& input, const Tensor& residual, const Tensor& weight, double eps,
                             Stream stream) {
  run("gemma_fused_add_rmsnorm", &OpTable::gemma_fused_add_rmsnorm, input, residual, weight, eps, 1.0f,
      stream);
}

}  // namespace musaic
