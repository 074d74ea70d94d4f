// A block a token and side: its threads walk over the heads' elements, sixteen bytes at a time where everything is
// aligned for it.
#pragma once

#include "backends/backend.h"
#include "device/device.h"
#include "ops/kv_cache_store/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kStoreThreads = 128;

MUSAIC_FN void put(std::uint16_t* to, std::uint16_t v) { *to = v; }
MUSAIC_FN void put(std::uint32_t* to, std::uint32_t v) { *to = v; }
MUSAIC_FN void put(uint4* to, const uint4& v) { *to = v; }
MUSAIC_FN void put(Half* to, float v) { store(to, v); }
MUSAIC_FN void put(BFloat16* to, float v) { store(to, v); }

/// Sizes and strides of the arguments count To and From.
template <class To, class From>
__global__ void __launch_bounds__(kStoreThreads) kv_cache_store_kernel(const KvCacheStoreArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kStoreThreads);
  const std::int64_t num_slots = a.num_pages * a.page_size;
  for (std::int64_t item = blockIdx.x; item < 2 * a.num_tokens; item += gridDim.x) {
    const std::int64_t token = item / 2;
    const KvCacheStoreSide& s = a.sides[item % 2];
    const std::int64_t slot = a.slots_are_64_bit ? static_cast<const std::int64_t*>(a.slots)[token]
                                                 : static_cast<const std::int32_t*>(a.slots)[token];
    if (slot < 0 || slot >= num_slots) {
      if (slot != -1 && item % 2 == 0 && threadIdx.x == 0)
        raise_fault(a.fault, DeviceFault::kIndexOutOfRange, token, slot);
      continue;
    }
    To* to =
        static_cast<To*>(s.cache) + slot / a.page_size * s.page_stride + slot % a.page_size * s.slot_stride;
    const From* from = static_cast<const From*>(s.source) + token * s.token_stride;
    if (s.cache_head_stride == s.head_dim && s.source_head_stride == s.head_dim) {
      const std::int64_t n = a.num_kv_heads * s.head_dim;
      for (std::int64_t i = threadIdx.x; i < n; i += kStoreThreads) put(to + i, from[i]);
    } else {
      for (std::int64_t h = 0; h < a.num_kv_heads; ++h)
        for (std::int64_t i = threadIdx.x; i < s.head_dim; i += kStoreThreads)
          put(to + h * s.cache_head_stride + i, from[h * s.source_head_stride + i]);
    }
  }
}

/// Whether all that a call touches comes in units of 16 bytes.
inline bool is_in_units_of_16(const KvCacheStoreArgs& a, std::int64_t element_bytes) {
  for (const KvCacheStoreSide& s : a.sides) {
    const auto bases = reinterpret_cast<std::uintptr_t>(s.cache) | reinterpret_cast<std::uintptr_t>(s.source);
    const std::int64_t elements = s.page_stride | s.slot_stride | s.cache_head_stride | s.token_stride |
                                  s.source_head_stride | s.head_dim;
    if (bases % 16 != 0 || elements * element_bytes % 16 != 0) return false;
  }
  return true;
}

}  // namespace

void kv_cache_store(const KvCacheStoreArgs& args, Stream stream) {
  KvCacheStoreArgs a = args;
  const unsigned blocks = blocks_for(2 * a.num_tokens, 1);
  if (a.source_dtype != a.cache_dtype) {
    if (a.cache_dtype == FloatKind::kF16)
      MUSAIC_LAUNCH((kv_cache_store_kernel<Half, float>), blocks, kStoreThreads, 0, stream, a);
    else
      MUSAIC_LAUNCH((kv_cache_store_kernel<BFloat16, float>), blocks, kStoreThreads, 0, stream, a);
    return;
  }
  const std::int64_t element_bytes = a.cache_dtype == FloatKind::kF32 ? 4 : 2;
  if (is_in_units_of_16(a, element_bytes)) {
    for (KvCacheStoreSide& s : a.sides)
      for (std::int64_t* elements : {&s.page_stride, &s.slot_stride, &s.cache_head_stride, &s.token_stride,
                                     &s.source_head_stride, &s.head_dim})
        *elements /= 16 / element_bytes;
    MUSAIC_LAUNCH((kv_cache_store_kernel<uint4, uint4>), blocks, kStoreThreads, 0, stream, a);
  } else if (element_bytes == 4) {
    MUSAIC_LAUNCH((kv_cache_store_kernel<std::uint32_t, std::uint32_t>), blocks, kStoreThreads, 0, stream, a);
  } else {
    MUSAIC_LAUNCH((kv_cache_store_kernel<std::uint16_t, std::uint16_t>), blocks, kStoreThreads, 0, stream, a);
  }
}

}  // namespace musaic::MUSAIC_TARGET
