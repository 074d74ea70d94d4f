// Random weights for tests.
#pragma once

#include "ops/ggml_dequantize/reference.h"
#include "testing/testing.h"

namespace musaic::reference {

inline std::vector<unsigned char> random_weights(const GgmlLayout& layout, std::int64_t blocks) {
  return random_weights(layout, blocks, [] { return testing::rng()(); }, [] { return testing::normal(); });
}

}  // namespace musaic::reference
