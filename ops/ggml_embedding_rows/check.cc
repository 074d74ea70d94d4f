#include "cli/check/check.h"

#include "ops/ggml_dequantize/check_weights.h"

namespace musaic::checks {

namespace {
constexpr std::int64_t kTokens = 5, kVocab = 7, kHidden = 264;
}  // namespace

std::vector<Case> ggml_embedding_rows_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const GgmlLayout& layout : kGgmlLayouts) {
      cases.push_back({"ggml_embedding_rows", layout.name + std::string("-5x264"), dtype, Tier::kExact,
                       "|y| (u + 2^-24)", [=](Call& call) {
                         const std::int64_t row_blocks = ggml_blocks(layout, kHidden);
                         const int out = call.output(dtype, {kTokens, kHidden}),
                                   weight = random_weights(call, layout, kVocab * row_blocks),
                                   ids = call.input(kInt32, {kTokens}, [](std::int64_t t) {
                                     return static_cast<double>((t * 4 + 6) % kVocab);
                                   });
                         call.scalar(static_cast<std::int64_t>(layout.type));
                         Expected e{out, {}, {}};
                         for (const double id : call.values(ids))
                           for (std::int64_t i = 0; i < kHidden; ++i) {
                             e.values.push_back(weight_element(call, weight, layout,
                                                               static_cast<std::int64_t>(id) * row_blocks, i)
                                                    .value());
                             e.tolerance.push_back(weight_tolerance(e.values.back(), dtype));
                           }
                         return std::vector<Expected>{e};
                       }});
    }
  return cases;
}

}  // namespace musaic::checks
