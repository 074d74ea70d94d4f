#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> sampling_timings() {
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{1, 49152}, Shape{1, 128256}, Shape{64, 32000}})
      for (const bool from_logits : {true, false}) {
        if (!from_logits && dtype != kFloat32) continue;
        all.push_back({from_logits ? "sampling_from_logits" : "sampling_from_probs",
                       to_text(shape) + "_k50_p0.9", dtype, [=](Call& call) {
                         const auto row = [](std::int64_t r) { return static_cast<double>(r); };
                         call.output(kInt32, {shape[0]});
                         call.no_tensor();
                         if (from_logits)
                           call.pattern(dtype, shape, call.any());
                         else
                           call.pattern(dtype, shape, [&](std::int64_t i) {
                             return static_cast<double>(i % 97 + 1) / 1e6;
                           });
                         call.no_tensor();
                         call.input(kInt64, {shape[0]}, row);
                         call.input(kInt64, {shape[0]}, row);
                         for (int i = 0; i < (from_logits ? 5 : 4); ++i) call.no_tensor();
                         if (from_logits) call.scalar(0.8);
                         call.scalar(std::int64_t{50});
                         call.scalar(0.9);
                         call.scalar(0.0);
                         call.scalar(false);
                         call.set_workspace(sampling_workspace_bytes(shape[0], shape[1], call.device()));
                       }});
      }
  for (const std::string op : {"top_k_renorm_probs", "top_p_renorm_probs", "top_k_mask_logits"})
    for (const DType dtype : kFloatTypes)
      for (const Shape& shape : {Shape{1, 128256}, Shape{64, 32000}})
        all.push_back(
            {op, to_text(shape) + (op == "top_p_renorm_probs" ? "_p0.9" : "_k50"), dtype, [=](Call& call) {
               call.output(dtype, shape);
               call.pattern(dtype, shape,
                            [](std::int64_t i) { return static_cast<double>(i % 97 + 1) / 1e6; });
               call.no_tensor();
               if (op == "top_p_renorm_probs")
                 call.scalar(0.9);
               else
                 call.scalar(std::int64_t{50});
             }});
  return all;
}

}  // namespace musaic::checks
