#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> ggml_mul_mat_timings() {
  struct Type {
    std::int64_t number;
    const char* name;
  };
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Type type :
         {Type{2, "Q4_0"}, Type{3, "Q4_1"}, Type{8, "Q8_0"}, Type{12, "Q4_K"}, Type{14, "Q6_K"}})
      for (const Shape& weight : {Shape{1536, 768}, Shape{11008, 4096}})
        for (const std::int64_t tokens : {1, 32})
          all.push_back({tokens == 1 ? "ggml_mul_mat_vec_a8" : "ggml_mul_mat_a8",
                         std::string(type.name) + "_" + to_text({tokens, weight[0], weight[1]}), dtype,
                         [=](Call& call) {
                           call.output(dtype, {tokens, weight[0]});
                           call.pattern(kUInt8, {weight[0], ggml_row_bytes(type.number, weight[1])},
                                        call.codes());
                           call.pattern(dtype, {tokens, weight[1]}, call.any());
                           call.scalar(type.number);
                           call.scalar(weight[0]);
                           call.set_workspace(ggml_mul_mat_a8_workspace_bytes(tokens, weight[1]));
                         }});
  return all;
}

}  // namespace musaic::checks
