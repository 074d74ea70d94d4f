// A block a token, a thread eight values at a time.
#pragma once

#include "backends/backend.h"
#include "ops/ggml_dequantize/chunks.h"
#include "ops/ggml_embedding_rows/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kEmbeddingThreads = 128;

__global__ void __launch_bounds__(kEmbeddingThreads)
    ggml_embedding_rows_kernel(const GgmlEmbeddingRowsArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kEmbeddingThreads);
  const std::int64_t chunks = (a.hidden_size + 7) / 8;
  for (std::int64_t t = blockIdx.x; t < a.num_tokens; t += gridDim.x) {
    const std::int64_t id =
        a.wide_ids ? static_cast<const std::int64_t*>(a.ids)[t] : static_cast<const std::int32_t*>(a.ids)[t];
    if (id < 0 || id >= a.vocab_size) {
      if (threadIdx.x == 0) raise_fault(a.faults, DeviceFault::kIndexOutOfRange, t, id);
      continue;
    }
    void* out = a.dtype == FloatKind::kF32 ? static_cast<void*>(row_of<float>(a.out, t))
                                           : static_cast<void*>(row_of<std::uint16_t>(a.out, t));
    for (std::int64_t c = threadIdx.x; c < chunks; c += kEmbeddingThreads)
      store_row_values(a.layout.type, a.weight + id * a.row_bytes, c, a.hidden_size, out, a.dtype);
  }
}

}  // namespace

void ggml_embedding_rows(const GgmlEmbeddingRowsArgs& a, Stream stream) {
  MUSAIC_LAUNCH(ggml_embedding_rows_kernel, blocks_for(a.num_tokens, 1), kEmbeddingThreads, 0, stream, a);
}

}  // namespace musaic::MUSAIC_TARGET
