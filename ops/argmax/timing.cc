#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> argmax_timings() {
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{1, 49152}, Shape{1, 128256}, Shape{64, 128256}})
      all.push_back({"argmax", to_text(shape), dtype, [=](Call& call) {
                       call.output(kInt64, {shape[0]});
                       call.pattern(dtype, shape, call.any());
                     }});
  return all;
}

}  // namespace musaic::checks
