#include "cli/check/check.h"

#include <cmath>

#include "ops/ggml_dequantize/check_weights.h"

namespace musaic::checks {

std::vector<Case> ggml_dequantize_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const GgmlLayout& layout : kGgmlLayouts)
      for (const std::int64_t n : {1, 257}) {
        cases.push_back({"ggml_dequantize", layout.name + std::string("-3x") + std::to_string(n), dtype,
                         Tier::kExact, "|y| (u + 2^-24)", [=](Call& call) {
                           const int out = call.output(dtype, {3, n}),
                                     weight = random_weights(call, layout, ggml_blocks(layout, 3 * n));
                           call.scalar(static_cast<std::int64_t>(layout.type));
                           call.scalar(std::int64_t{3});
                           call.scalar(n);
                           Expected e{out, {}, {}};
                           for (std::int64_t i = 0; i < 3 * n; ++i) {
                             e.values.push_back(weight_element(call, weight, layout, 0, i).value());
                             e.tolerance.push_back(weight_tolerance(e.values.back(), dtype));
                           }
                           return std::vector<Expected>{e};
                         }});
      }
  return cases;
}

}  // namespace musaic::checks
