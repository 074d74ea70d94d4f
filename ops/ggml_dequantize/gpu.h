// A thread eight values.
#pragma once

#include "backends/backend.h"
#include "ops/ggml_dequantize/args.h"
#include "ops/ggml_dequantize/chunks.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kDequantizeThreads = 256;

__global__ void __launch_bounds__(kDequantizeThreads) ggml_dequantize_kernel(const GgmlDequantizeArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kDequantizeThreads);
  const std::int64_t chunks = (a.elements + 7) / 8, step = std::int64_t{gridDim.x} * kDequantizeThreads;
  for (std::int64_t c = std::int64_t{blockIdx.x} * kDequantizeThreads + threadIdx.x; c < chunks; c += step)
    store_row_values(a.layout.type, a.weight, c, a.elements, a.out, a.dtype);
}

}  // namespace

void ggml_dequantize(const GgmlDequantizeArgs& a, Stream stream) {
  MUSAIC_LAUNCH(ggml_dequantize_kernel, blocks_for(a.elements, 8 * kDequantizeThreads), kDequantizeThreads, 0,
                stream, a);
}

}  // namespace musaic::MUSAIC_TARGET
