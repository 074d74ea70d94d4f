#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> merge_state_timings() {
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{1, 32, 128}, Shape{512, 32, 128}, Shape{4096, 32, 128}})
      all.push_back({"merge_state_v2", to_text(shape), dtype, [=](Call& call) {
                       const Shape heads = {shape[0], shape[1]};
                       call.output(dtype, shape);
                       call.output(kFloat32, heads);
                       for (int side = 0; side < 2; ++side) {
                         call.pattern(dtype, shape, call.any());
                         call.pattern(kFloat32, heads, call.any());
                       }
                     }});
  return all;
}

}  // namespace musaic::checks
