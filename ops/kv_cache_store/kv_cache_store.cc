#include "ops/kv_cache_store/kv_cache_store.h"

#include "backends/backend.h"
#include "musaic/check.h"
#include "ops/kv_cache_store/args.h"

namespace musaic {
namespace {

constexpr FaultSite kSlotsSite{"kv_cache_store", "slots"};

KvCacheStoreSide side(const Tensor& cache, const Tensor& source) {
  KvCacheStoreSide s{};
  s.cache = cache.data();
  s.source = source.data();
  s.page_stride = cache.stride(0);
  s.slot_stride = cache.stride(1);
  s.cache_head_stride = cache.stride(2);
  s.token_stride = source.stride(0);
  s.source_head_stride = source.stride(1);
  s.head_dim = cache.size(3);
  return s;
}

}  // namespace

void kv_cache_store(const Tensor& k_cache, const Tensor& v_cache, const Tensor& key, const Tensor& value,
                    const Tensor& slots, Stream stream) {
  Check check("kv_cache_store");
  Dim num_pages("num_pages"), page_size("page_size"), num_kv_heads("num_kv_heads"), k_head_dim("k_head_dim"),
      v_head_dim("v_head_dim"), num_tokens("num_tokens");
  check.tensor("k_cache", k_cache)
      .dtype({kFloat32, kFloat16, kBFloat16})
      .shape({&num_pages, &page_size, &num_kv_heads, &k_head_dim})
      .last_dim_contiguous()
      .aligned();
  check.tensor("v_cache", v_cache)
      .same_dtype("k_cache", k_cache)
      .shape({&num_pages, &page_size, &num_kv_heads, &v_head_dim})
      .last_dim_contiguous()
      .aligned();
  auto key_argument = check.tensor("key", key);
  if (key.dtype() != kFloat32) key_argument.same_dtype("k_cache", k_cache);
  key_argument.shape({&num_tokens, &num_kv_heads, &k_head_dim}).last_dim_contiguous().aligned();
  check.tensor("value", value)
      .same_dtype("key", key)
      .shape({&num_tokens, &num_kv_heads, &v_head_dim})
      .last_dim_contiguous()
      .aligned();
  check.tensor("slots", slots).dtype({kInt32, kInt64}).shape({&num_tokens}).contiguous().aligned();
  check.no_overlap("k_cache", k_cache, "key", key, false);
  check.no_overlap("k_cache", k_cache, "value", value, false);
  check.no_overlap("k_cache", k_cache, "slots", slots, false);
  check.no_overlap("v_cache", v_cache, "key", key, false);
  check.no_overlap("v_cache", v_cache, "value", value, false);
  check.no_overlap("v_cache", v_cache, "slots", slots, false);

  const Backend backend = enter(check.device());
  KvCacheStoreArgs args{};
  args.sides[0] = side(k_cache, key);
  args.sides[1] = side(v_cache, value);
  args.slots = slots.data();
  args.slots_are_64_bit = slots.dtype() == kInt64;
  args.source_dtype = float_kind(key.dtype());
  args.cache_dtype = float_kind(k_cache.dtype());
  args.num_tokens = num_tokens;
  args.num_kv_heads = num_kv_heads;
  args.num_pages = num_pages;
  args.page_size = page_size;
  args.fault = {backend.faults, &kSlotsSite};
  if (args.num_tokens > 0) launch(backend, &OpTable::kv_cache_store, check.op(), args, stream);
}

}  // namespace musaic
