#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> moe_sum_timings() {
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{1, 8, 7168}, Shape{512, 8, 2048}, Shape{2048, 8, 7168}})
      for (const bool reduce : {false, true})
        all.push_back({reduce ? "moe_sum_reduce" : "moe_sum", to_text(shape), dtype, [=](Call& call) {
                         call.output(dtype, {shape[0], shape[2]});
                         call.pattern(dtype, shape, call.any());
                         if (reduce) {
                           call.no_tensor();
                           call.scalar(2.5);
                         }
                       }});
  return all;
}

}  // namespace musaic::checks
