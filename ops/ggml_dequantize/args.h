#pragma once

#include "device/args.h"
#include "ops/ggml_dequantize/blocks.h"

namespace musaic {

struct GgmlDequantizeArgs {
  void* out;
  const std::uint8_t* weight;
  GgmlLayout layout;
  FloatKind dtype;
  std::int64_t elements;
};

}  // namespace musaic
