#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> ggml_embedding_rows_timings() {
  static constexpr std::int64_t kVocab = 49152, kHidden = 576, kQ8_0 = 8;
  std::vector<Timing> all;
  for (const std::int64_t tokens : {1, 512}) {
    const std::int64_t row_bytes = ggml_row_bytes(kQ8_0, kHidden);
    all.push_back({"ggml_embedding_rows", "Q8_0_" + to_text({tokens, kHidden}), kFloat32,
                   [=](Call& call) {
                     call.output(kFloat32, {tokens, kHidden});
                     call.pattern(kUInt8, {kVocab * row_bytes}, call.codes());
                     call.input(kInt32, {tokens},
                                [](std::int64_t i) { return static_cast<double>(i * 7919 % kVocab); });
                     call.scalar(kQ8_0);
                   },
                   tokens * (row_bytes + 4 * kHidden)});
  }
  return all;
}

}  // namespace musaic::checks
