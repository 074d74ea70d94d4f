#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> gated_activation_timings() {
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{1, 11008}, Shape{512, 11008}, Shape{2048, 11008}})
      for (const char* op : {"silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul"})
        all.push_back({op, to_text(shape), dtype, [=](Call& call) {
                         call.output(dtype, shape);
                         call.pattern(dtype, {shape[0], 2 * shape[1]}, call.any());
                       }});
  return all;
}

}  // namespace musaic::checks
