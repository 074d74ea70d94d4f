#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> moe_routing_timings() {
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{1, 128}, Shape{512, 128}, Shape{4096, 256}, Shape{16384, 256}}) {
      const auto common = [=](Call& call, bool has_bias) {
        call.output(kFloat32, {shape[0], 8});
        call.output(kInt32, {shape[0], 8});
        call.pattern(dtype, shape, call.any());
        if (has_bias)
          call.pattern(kFloat32, {shape[1]}, call.any());
        else
          call.no_tensor();
      };
      all.push_back({"topk_softmax", to_text(shape) + "_k8", dtype, [=](Call& call) {
                       common(call, false);
                       call.scalar(true);
                       call.scalar(0.0);
                     }});
      all.push_back({"topk_sigmoid", to_text(shape) + "_k8", dtype, [=](Call& call) {
                       common(call, true);
                       call.scalar(true);
                     }});
      all.push_back({"moe_fused_gate", to_text(shape) + "_8groups_k8", dtype, [=](Call& call) {
                       common(call, true);
                       call.scalar(std::int64_t{8});
                       call.scalar(std::int64_t{4});
                       call.scalar(std::int64_t{0});
                       call.scalar(2.5);
                       call.scalar(true);
                     }});
      all.push_back({"kimi_k2_moe_fused_gate", to_text(shape) + "_k8", dtype, [=](Call& call) {
                       common(call, true);
                       call.scalar(true);
                       call.scalar(2.872);
                       call.scalar(true);
                     }});
    }
  return all;
}

}  // namespace musaic::checks
