#include "ops/elementwise/elementwise.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/elementwise/args.h"

namespace musaic {
namespace {

void run(Check& check, void (*OpTable::*op)(const ElementwiseArgs&, Stream), const Tensor& out,
         const Tensor& input, const Tensor& bias, float scale, Stream stream) {
  check.tensor("input", input)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .rank(1, Tensor::kMaxDims)
      .last_dim_contiguous()
      .aligned();
  check.tensor("out", out)
      .same_dtype("input", input)
      .same_shape("input", input)
      .last_dim_contiguous()
      .aligned();
  check.no_overlap("out", out, "input", input, true);
  ElementwiseArgs args{};
  if (bias) {
    check.tensor("bias", bias)
        .same_dtype("input", input)
        .same_shape("input", input)
        .last_dim_contiguous()
        .aligned();
    check.no_overlap("out", out, "bias", bias, true);
    args.bias = rows_of(check.op(), "bias", bias);
  }
  args.out = rows_of(check.op(), "out", out);
  args.input = rows_of(check.op(), "input", input);
  args.dtype = float_kind(input.dtype());
  args.row_size = input.size(input.ndim() - 1);
  args.num_rows = 1;
  for (int d = 0; d < input.ndim() - 1; ++d) args.num_rows *= input.size(d);
  args.scale = scale;
  const Backend backend = enter(check.device());
  if (args.num_rows * args.row_size > 0) launch(backend, op, check.op(), args, stream);
}

}  // namespace

void gelu_quick(const Tensor& out, const Tensor& input, Stream stream) {
  Check check("gelu_quick");
  run(check, &OpTable::gelu_quick, out, input, {}, 0, stream);
}

void fused_mul_add(const Tensor& out, const Tensor& input, const Tensor& bias, double scale, Stream stream) {
  Check check("fused_mul_add");
  run(check, &OpTable::fused_mul_add, out, input, bias, static_cast<float>(scale), stream);
}

}  // namespace musaic
