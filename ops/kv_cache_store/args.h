#pragma once

#include "device/args.h"

namespace musaic {

/// One of the two caches with the tensor that is stored into it. Strides in elements.
struct KvCacheStoreSide {
  void* cache;
  const void* source;
  std::int64_t page_stride, slot_stride, cache_head_stride;
  std::int64_t token_stride, source_head_stride;
  std::int64_t head_dim;
};

struct KvCacheStoreArgs {
  KvCacheStoreSide sides[2];  // keys, values
  const void* slots;
  bool slots_are_64_bit;
  FloatKind source_dtype, cache_dtype;  // equal, or float32 and a 16-bit type
  std::int64_t num_tokens, num_kv_heads, num_pages, page_size;
  FaultSink fault;
};

}  // namespace musaic
