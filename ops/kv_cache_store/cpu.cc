#include "backends/cpu/launch.h"
#include "ops/kv_cache_store/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

/// One row of head_dim elements.
template <class To, class From>
MUSAIC_FN void store_row(To* to, const From* from, std::int64_t n) {
  if constexpr (std::is_same_v<To, From>) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(To));
  } else {
    RowGroup group;
    group.each(n, [&](auto c) { c.store(to, c.load(from)); });
  }
}

template <class To, class From>
MUSAIC_FN void store_token(const KvCacheStoreSide& s, std::int64_t num_kv_heads, std::int64_t token,
                           std::int64_t page, std::int64_t offset) {
  To* to = static_cast<To*>(s.cache) + page * s.page_stride + offset * s.slot_stride;
  const From* from = static_cast<const From*>(s.source) + token * s.token_stride;
  if (s.cache_head_stride == s.head_dim && s.source_head_stride == s.head_dim)
    return store_row(to, from, num_kv_heads * s.head_dim);
  for (std::int64_t h = 0; h < num_kv_heads; ++h)
    store_row(to + h * s.cache_head_stride, from + h * s.source_head_stride, s.head_dim);
}

template <class To, class From>
void store_tokens(const KvCacheStoreArgs& a) {
  const std::int64_t num_slots = a.num_pages * a.page_size;
  constexpr std::int64_t kElementsPerThread = 65536;
  const std::int64_t token_elements = a.num_kv_heads * (a.sides[0].head_dim + a.sides[1].head_dim);
  auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t slot = a.slots_are_64_bit ? static_cast<const std::int64_t*>(a.slots)[t]
                                                   : static_cast<const std::int32_t*>(a.slots)[t];
      if (slot < 0 || slot >= num_slots) {
        if (slot != -1) raise_fault(a.fault, DeviceFault::kIndexOutOfRange, t, slot);
        continue;
      }
      for (const KvCacheStoreSide& s : a.sides)
        store_token<To, From>(s, a.num_kv_heads, t, slot / a.page_size, slot % a.page_size);
    }
  };
  cpu::parallel(a.num_tokens, 1 + kElementsPerThread / (token_elements + 1), body);
}

}  // namespace

void kv_cache_store(const KvCacheStoreArgs& args, Stream) {
  for_float_kind(args.cache_dtype, [&](auto* t) {
    using To = std::remove_pointer_t<decltype(t)>;
    if (args.source_dtype == args.cache_dtype)
      store_tokens<To, To>(args);
    else
      store_tokens<To, float>(args);
  });
}

}  // namespace musaic::MUSAIC_TARGET
