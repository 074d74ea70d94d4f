#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> rotary_embedding_timings() {
  static constexpr std::int64_t kHeads = 32, kKvHeads = 8, kDim = 128;
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t tokens : {1, 512, 4096})
      for (const bool is_neox : {true, false})
        all.push_back({"rotary_embedding",
                       to_text({tokens, kHeads + kKvHeads, kDim}) + (is_neox ? "_halves" : "_pairs"), dtype,
                       [=](Call& call) {
                         call.updated_pattern(dtype, {tokens, kHeads, kDim}, call.any());
                         call.updated_pattern(dtype, {tokens, kKvHeads, kDim}, call.any());
                         call.input(kInt64, {tokens}, [](std::int64_t t) { return static_cast<double>(t); });
                         // 3-4-5 rotations, so that repeated calls keep the length of every pair.
                         call.pattern(kFloat32, {tokens, kDim},
                                      [](std::int64_t i) { return i % kDim < kDim / 2 ? 0.6 : 0.8; });
                         call.scalar(kDim);
                         call.scalar(is_neox);
                       }});
  return all;
}

}  // namespace musaic::checks
