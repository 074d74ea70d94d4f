// Writing new keys and values into a paged cache.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Stores each token's key and value in the slot of the cache that the caller chose for it:
///
///     k_cache[slots[t] / page_size, slots[t] % page_size, h, :] = key[t, h, :]      and so for value
///
/// \param k_cache  [num_pages, page_size, num_kv_heads, k_head_dim], float32, float16 or bfloat16; last
///                 dimension contiguous, any other strides; slots that no token names keep their contents
/// \param v_cache  [num_pages, page_size, num_kv_heads, v_head_dim], k_cache's dtype; may share an allocation
///                 with k_cache as long as no element is in both
/// \param key      [num_tokens, num_kv_heads, k_head_dim], the cache's dtype, or float32; last dimension
///                 contiguous, any other strides
/// \param value    [num_tokens, num_kv_heads, v_head_dim], key's dtype, likewise
/// \param slots    [num_tokens], int32 or int64, contiguous: page * page_size + offset in the page. -1 marks
///                 a padding token, which is skipped. Two tokens of one call should not name the same slot:
///                 which of them stays is not specified.
///
/// Tier: exact. With equal dtypes the bytes are copied, NaN payloads included; float32 into a 16-bit cache is
/// rounded once, to nearest even, and a NaN becomes the canonical one. A slot below -1 or not below num_pages
/// * page_size (compared in 64 bits) is skipped and recorded as DeviceFault::kIndexOutOfRange with the token
/// as its row; the other tokens are stored.
void kv_cache_store(const Tensor& k_cache, const Tensor& v_cache, const Tensor& key, const Tensor& value,
                    const Tensor& slots, Stream stream = {});

}  // namespace musaic
