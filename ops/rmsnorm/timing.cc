#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> rmsnorm_timings() {
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{1, 4096}, Shape{512, 4096}, Shape{2048, 7168}})
      for (const char* op : {"rmsnorm", "gemma_rmsnorm"})
        all.push_back({op, to_text(shape), dtype, [=](Call& call) {
                         call.output(dtype, shape);
                         call.pattern(dtype, shape, call.any());
                         call.pattern(dtype, {shape[1]}, call.any());
                         call.scalar(1e-6);
                       }});
  return all;
}

}  // namespace musaic::checks
