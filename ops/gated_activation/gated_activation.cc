#include "ops/gated_activation/gated_activation.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/gated_activation/args.h"

namespace musaic {
namespace {

using Launcher = void (*OpTable::*)(const GatedActivationArgs&, Stream);

/// Two views of the same shape that hold the same elements in the same places.
bool same_elements(const Tensor& a, const Tensor& b) {
  bool same = a.data() == b.data();
  for (int i = 0; i < a.ndim(); ++i) same = same && (a.size(i) <= 1 || a.stride(i) == b.stride(i));
  return same;
}

void run(const char* op, Launcher launcher, const Tensor& out, const Tensor& input, Stream stream) {
  Check check(op);
  check.tensor("input", input)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .rank(1, Tensor::kMaxDims)
      .last_dim_contiguous()
      .aligned();
  const int last = input.ndim() - 1;
  check.that(input.size(last) % 2 == 0, "input", "shape " + shape_to_string(input.shape(), input.ndim()),
             "an even last dimension: the gate, then the values");
  const Tensor gate = input.slice(last, 0, input.size(last) / 2);
  const Tensor up = input.slice(last, input.size(last) / 2, input.size(last));
  check.tensor("out", out)
      .same_dtype("input", input)
      .same_shape("half of input", gate)
      .last_dim_contiguous()
      .aligned();
  if (!same_elements(out, gate) && !same_elements(out, up))
    check.no_overlap("out", out, "input", input, false);

  GatedActivationArgs args{};
  args.out = rows_of(op, "out", out);
  args.input = rows_of(op, "input", input);
  args.dtype = float_kind(input.dtype());
  args.hidden_size = gate.size(last);
  args.num_rows = args.hidden_size > 0 ? out.numel() / args.hidden_size : 0;
  const Backend backend = enter(check.device());
  if (args.num_rows > 0) launch(backend, launcher, check.op(), args, stream);
}

}  // namespace

void silu_and_mul(const Tensor& out, const Tensor& input, Stream stream) {
  run("silu_and_mul", &OpTable::silu_and_mul, out, input, stream);
}

void gelu_and_mul(const Tensor& out, const Tensor& input, Stream stream) {
  run("gelu_and_mul", &OpTable::gelu_and_mul, out, input, stream);
}

void gelu_tanh_and_mul(const Tensor& out, const Tensor& input, Stream stream) {
  run("gelu_tanh_and_mul", &OpTable::gelu_tanh_and_mul, out, input, stream);
}

}  // namespace musaic
