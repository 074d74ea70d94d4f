// From the layouts, byte by byte.
#pragma once

#include <cstdint>

namespace musaic::reference {

/// Where byte i of layer `layer` of token `token` lies in a pool. In bytes.
struct KvLayout {
  enum class Kind { kLayerFirst, kPageFirst, kPageHead } kind;
  std::int64_t item, layers, page_size = 1, heads = 1;

  std::int64_t offset(std::int64_t token, std::int64_t layer, std::int64_t i) const {
    const std::int64_t row = item * layers;                  // bytes of a token over all layers
    if (kind == Kind::kLayerFirst) return token * item + i;  // in the layer's own tensor
    if (kind == Kind::kPageFirst) return token * row + layer * item + i;
    const std::int64_t per_head = item / heads, head = i / per_head;
    // [pages, heads, page_size, layers, per_head]
    return ((((token / page_size) * heads + head) * page_size + token % page_size) * layers + layer) *
               per_head +
           i % per_head;
  }
};

}  // namespace musaic::reference
