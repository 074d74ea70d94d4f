#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> quantize_timings() {
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{1, 7168}, Shape{512, 7168}, Shape{4096, 7168}}) {
      const std::int64_t rows = shape[0], n = shape[1];
      all.push_back({"per_token_quant_8bit", to_text(shape), dtype, [=](Call& call) {
                       call.output(kInt8, shape);
                       call.output(kFloat32, {rows});
                       call.pattern(dtype, shape, call.any());
                     }});
      all.push_back({"per_tensor_quant_8bit", to_text(shape), dtype, [=](Call& call) {
                       call.output(kInt8, shape);
                       call.output(kFloat32, {1});
                       call.pattern(dtype, shape, call.any());
                       call.scalar(false);
                     }});
      all.push_back({"per_token_group_quant_8bit", to_text(shape) + "_128", dtype, [=](Call& call) {
                       call.output(kInt8, shape);
                       call.output(kFloat32, {rows, n / 128});
                       call.pattern(dtype, shape, call.any());
                       call.no_tensor();
                       call.scalar(std::int64_t{128});
                       call.scalar(1e-10);
                       call.scalar(-128.0);
                       call.scalar(127.0);
                       for (int flag = 0; flag < 3; ++flag) call.scalar(false);
                     }});
    }
  return all;
}

}  // namespace musaic::checks
