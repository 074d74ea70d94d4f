#include "backends/cpu/launch.h"
#include "ops/ggml_dequantize/codes.h"
#include "ops/ggml_embedding_rows/args.h"

namespace musaic::MUSAIC_TARGET {

void ggml_embedding_rows(const GgmlEmbeddingRowsArgs& a, Stream) {
  for_float_kind(a.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    auto body = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t id = a.wide_ids ? static_cast<const std::int64_t*>(a.ids)[i]
                                           : static_cast<const std::int32_t*>(a.ids)[i];
        if (id < 0 || id >= a.vocab_size) {
          raise_fault(a.faults, DeviceFault::kIndexOutOfRange, i, id);
          continue;
        }
        dequantize_run(a.layout.type, a.weight + id * a.row_bytes, row_of<T>(a.out, i), a.hidden_size);
      }
    };
    cpu::parallel(a.num_tokens, 1 + 16384 / (a.hidden_size + 1), body);
  });
}

}  // namespace musaic::MUSAIC_TARGET
