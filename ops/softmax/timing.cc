#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> softmax_timings() {
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{1, 49152}, Shape{1, 128256}, Shape{64, 32000}})
      all.push_back({"softmax", to_text(shape), dtype, [=](Call& call) {
                       call.output(kFloat32, shape);
                       call.pattern(dtype, shape, call.any());
                       call.no_tensor();
                       call.scalar(0.8);
                     }});
  return all;
}

}  // namespace musaic::checks
