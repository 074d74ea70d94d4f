#include "cli/check/check.h"

#include <cmath>

#include "ops/ggml_dequantize/check_weights.h"
#include "ops/ggml_mul_mat/reference.h"

namespace musaic::checks {

std::vector<Case> ggml_mul_mat_cases() {
  struct Size {
    std::int64_t tokens, rows, k;
  };
  std::vector<Case> cases;
  const auto add = [&](const char* op, DType dtype, const GgmlLayout& layout, Size s) {
    cases.push_back(
        {op,
         layout.name + ("-" + std::to_string(s.tokens) + "x" + std::to_string(s.rows) + "x") +
             std::to_string(s.k),
         dtype, Tier::kExact, "sum |w| d / 2 + sum |w x| (16 + K/256) 2^-24 + |y| u", [=](Call& call) {
           const std::int64_t row_blocks = ggml_blocks(layout, s.k);
           const int out = call.output(dtype, {s.tokens, s.rows}),
                     weight = random_weights(call, layout, s.rows * row_blocks),
                     x = call.normal(dtype, {s.tokens, s.k});
           call.scalar(static_cast<std::int64_t>(layout.type));
           call.scalar(s.rows);
           call.set_workspace(ggml_mul_mat_a8_workspace_bytes(s.tokens, s.k));
           const unsigned char* bytes = call.arguments()[static_cast<std::size_t>(weight)].bytes.data();
           Expected e{out, {}, {}};
           for (const std::vector<double>& row : call.rows(x, s.k)) {
             const reference::A8Activations a =
                 is_plain(layout) ? reference::A8Activations{}
                                  : reference::quantize_a8(row, row_blocks * layout.block_elements);
             for (std::int64_t r = 0; r < s.rows; ++r) {
               const reference::ExactDot exact =
                   reference::exact_dot(layout, bytes + r * row_blocks * layout.block_bytes, row, a);
               e.values.push_back(exact.value);
               e.tolerance.push_back(
                   (exact.bound + std::fabs(exact.value) * epsilon(dtype) + smallest(dtype)) * 1.01);
             }
           }
           return std::vector<Expected>{e};
         }});
  };
  for (const DType dtype : kFloatTypes)
    for (const GgmlLayout& layout : kGgmlLayouts) add("ggml_mul_mat_vec_a8", dtype, layout, {1, 7, 576});
  for (const DType dtype : kFloatTypes)
    for (const GgmlLayout& layout : kGgmlLayouts)
      for (const Size s : {Size{3, 5, 100}, Size{13, 35, 288}}) add("ggml_mul_mat_a8", dtype, layout, s);
  return cases;
}

}  // namespace musaic::checks
