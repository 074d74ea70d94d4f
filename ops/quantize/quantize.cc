#include "ops/quantize/quantize.h"

#include <cmath>

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/quantize/args.h"

namespace musaic {
namespace {

CodeKind code_kind(DType t) {
  return t == kInt8             ? CodeKind::kSigned
         : t == kFloat8E4M3FN   ? CodeKind::kFiniteE4M3
         : t == kFloat8E4M3FNUZ ? CodeKind::kUnsignedZeroE4M3
         : t == kFloat8E5M2     ? CodeKind::kStandardE5M2
                                : CodeKind::kUnsignedZeroE5M2;
}
float largest(CodeKind kind) {
  return kind == CodeKind::kSigned             ? 127.0f
         : kind == CodeKind::kFiniteE4M3       ? 448.0f
         : kind == CodeKind::kUnsignedZeroE4M3 ? 240.0f
                                               : 57344.0f;
}

/// Codes and input; `halves`: the input's rows are twice as long.
QuantizeArgs common(Check& check, const Tensor& q, const Tensor& input, bool halves) {
  check.tensor("input", input)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .rank(1, Tensor::kMaxDims)
      .last_dim_contiguous()
      .aligned();
  check.tensor("output_q", q)
      .dtype({kInt8, kFloat8E4M3FN, kFloat8E4M3FNUZ, kFloat8E5M2, kFloat8E5M2FNUZ})
      .rank(1, Tensor::kMaxDims)
      .last_dim_contiguous();
  bool fits = q.ndim() == input.ndim();
  for (int d = 0; fits && d < q.ndim(); ++d)
    fits = q.size(d) * (halves && d == q.ndim() - 1 ? 2 : 1) == input.size(d);
  if (!fits)
    check.fail("output_q", "shape " + shape_to_string(q.shape(), q.ndim()),
               std::string(halves ? "half the last size of input, " : "the shape of input, ") +
                   shape_to_string(input.shape(), input.ndim()));
  check.no_overlap("output_q", q, "input", input, false);
  QuantizeArgs args{};
  args.codes = rows_of(check.op(), "output_q", q);
  args.input = rows_of(check.op(), "input", input);
  args.dtype = float_kind(input.dtype());
  args.kind = code_kind(q.dtype());
  args.row_size = q.size(q.ndim() - 1);
  args.num_rows = 1;
  for (int d = 0; d < q.ndim() - 1; ++d) args.num_rows *= q.size(d);
  args.group_size = args.row_size;
  args.num_groups = 1;
  args.high = largest(args.kind);
  args.low = args.kind == CodeKind::kSigned ? -128.0f : -args.high;
  return args;
}

void scales_apart(Check& check, const Tensor& s, const Tensor& q, const Tensor& input) {
  check.no_overlap("output_s", s, "input", input, false);
  check.no_overlap("output_s", s, "output_q", q, false);
}

}  // namespace

void per_token_quant_8bit(const Tensor& output_q, const Tensor& output_s, const Tensor& input,
                          Stream stream) {
  Check check("per_token_quant_8bit");
  QuantizeArgs args = common(check, output_q, input, false);
  check.tensor("output_s", output_s).dtype({kFloat32}).contiguous().aligned();
  check.that(output_s.numel() == args.num_rows, "output_s", std::to_string(output_s.numel()) + " elements",
             "one for each of the " + std::to_string(args.num_rows) + " rows of input");
  scales_apart(check, output_s, output_q, input);
  args.scales = {output_s.data(), 1, 1, 0};
  const Backend backend = enter(check.device());
  if (args.num_rows > 0) launch(backend, &OpTable::per_token_quant_8bit, check.op(), args, stream);
}

void per_tensor_quant_8bit(const Tensor& output_q, const Tensor& output_s, const Tensor& input,
                           bool is_static, Stream stream) {
  Check check("per_tensor_quant_8bit");
  QuantizeArgs args = common(check, output_q, input, false);
  check.tensor("output_s", output_s).dtype({kFloat32}).aligned();
  check.that(output_s.numel() == 1, "output_s", std::to_string(output_s.numel()) + " elements", "one");
  scales_apart(check, output_s, output_q, input);
  args.tensor_scale = output_s.data_as<float>();
  args.scale_is_given = is_static;
  launch(enter(check.device()), &OpTable::per_tensor_quant_8bit, check.op(), args, stream);
}

void per_token_group_quant_8bit(const Tensor& output_q, const Tensor& output_s, const Tensor& input,
                                const Tensor& masked_m, std::int64_t group_size, double eps, double min,
                                double max, bool scale_ue8m0, bool fuse_silu_and_mul, bool truncate_int8,
                                Stream stream) {
  static constexpr FaultSite kMask{"per_token_group_quant_8bit", "masked_m"};
  Check check(kMask.op);
  QuantizeArgs args = common(check, output_q, input, fuse_silu_and_mul);
  check.that(group_size >= 1 && args.row_size % group_size == 0, "group_size", std::to_string(group_size),
             "a divisor of the rows' size, " + std::to_string(args.row_size));
  args.group_size = group_size;
  args.num_groups = args.row_size / group_size;
  const auto number = [&](const char* name, double v, bool ok, const char* expected) {
    check.that(std::isfinite(static_cast<float>(v)) && ok, name, std::to_string(v), expected);
    return static_cast<float>(v);
  };
  args.eps = number("eps", eps, eps >= 0, "a finite number of 0 or more");
  args.low = number("min", min, min <= 0, "a finite number of 0 or less");
  args.high = number("max", max, static_cast<float>(max) > 0, "a finite number above 0");
  args.packed_scales = output_s.dtype() == kInt32;
  check.tensor("output_s", output_s).dtype({kFloat32, kInt32}).rank(1, Tensor::kMaxDims).aligned();
  check.that(!args.packed_scales || scale_ue8m0, "output_s", "dtype int32", "float32 without scale_ue8m0");
  const int last = output_q.ndim() - 1;
  bool fits = output_s.ndim() == output_q.ndim();
  for (int d = 0; fits && d < last; ++d) fits = output_s.size(d) == output_q.size(d);
  const std::int64_t wanted = args.packed_scales ? (args.num_groups + 3) / 4 : args.num_groups;
  if (!fits || output_s.size(last) != wanted)
    check.fail("output_s", "shape " + shape_to_string(output_s.shape(), output_s.ndim()),
               "the leading sizes of input and " + std::to_string(wanted) + " scales a row");
  scales_apart(check, output_s, output_q, input);
  args.scales = rows_of(check.op(), "output_s", output_s);
  args.scale_group_stride = output_s.stride(last);
  args.power_of_two = scale_ue8m0;
  args.silu_and_mul = fuse_silu_and_mul;
  args.truncate = truncate_int8 && args.kind == CodeKind::kSigned;
  if (masked_m) {
    check.that(input.ndim() >= 3, "input", "rank " + std::to_string(input.ndim()),
               "[experts, rows, ...] with masked_m");
    Dim experts("experts", input.size(0), "input");
    check.tensor("masked_m", masked_m).dtype({kInt32}).shape({&experts}).contiguous().aligned();
    check.no_overlap("output_q", output_q, "masked_m", masked_m, false);
    check.no_overlap("output_s", output_s, "masked_m", masked_m, false);
    args.masked_m = masked_m.data_as<const std::int32_t>();
    args.rows_per_expert = input.size(0) > 0 ? args.num_rows / input.size(0) : 0;
  }
  const Backend backend = enter(check.device());
  args.bad_mask = {backend.faults, &kMask};
  if (args.num_rows * args.num_groups > 0)
    launch(backend, &OpTable::per_token_group_quant_8bit, check.op(), args, stream);
}

}  // namespace musaic
