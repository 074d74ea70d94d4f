#include "cli/check/check.h"

namespace musaic::checks {

std::vector<Timing> ggml_dequantize_timings() {
  struct Type {
    std::int64_t number;
    const char* name;
  };
  std::vector<Timing> all;
  for (const DType dtype : kFloatTypes)
    for (const Shape& shape : {Shape{576, 1536}, Shape{11008, 4096}})
      for (const Type type : {Type{3, "Q4_1"}, Type{8, "Q8_0"}, Type{12, "Q4_K"}, Type{14, "Q6_K"}})
        all.push_back(
            {"ggml_dequantize", std::string(type.name) + "_" + to_text(shape), dtype, [=](Call& call) {
               call.output(dtype, shape);
               call.pattern(kUInt8, {ggml_row_bytes(type.number, shape[0] * shape[1])}, call.codes());
               call.scalar(type.number);
               call.scalar(shape[0]);
               call.scalar(shape[1]);
             }});
  return all;
}

}  // namespace musaic::checks
