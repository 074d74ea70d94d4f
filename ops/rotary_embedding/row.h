// The computation, once for every backend.
#pragma once

#include "device/device.h"
#include "ops/rotary_embedding/args.h"

namespace musaic::MUSAIC_TARGET {

template <class T>
struct RotaryEmbeddingToken {
  RotaryEmbeddingArgs a;

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t token) const {
    const std::int64_t position = a.positions_are_64_bit ? *row_of<const std::int64_t>(a.positions, token)
                                                         : *row_of<const std::int32_t>(a.positions, token);
    if (position < 0 || position >= a.max_position) {
      raise_fault(a.fault, DeviceFault::kIndexOutOfRange, token, position);
    } else {
      const std::int64_t item = a.cache_dtype == FloatKind::kF32 ? 4 : 2;
      const char* cos = static_cast<const char*>(a.cache) + position * a.cache_stride * item;
      const char* sin = cos + a.num_pairs * item;
      rotate(group, a.query, token, cos, sin);
      rotate(group, a.key, token, cos, sin);
    }
  }

  template <class Group>
  MUSAIC_FN void rotate(Group& group, const TokenHeads& heads, std::int64_t token, const char* cos,
                        const char* sin) const {
    T* first = row_of<T>(heads.tokens, token);
    group.each_of(heads.num_heads, a.num_pairs, [&](std::int64_t h, auto c) {
      T* head = first + h * heads.head_stride;
      const F32x8 cosines = load_kind(c, cos, a.cache_dtype), sines = load_kind(c, sin, a.cache_dtype);
      F32x8 x, y;
      if (a.is_neox) {
        x = c.load(head);
        y = c.load(head + a.num_pairs);
      } else {
        c.load_pairs(head, x, y);
      }
      const F32x8 turned_x = fma(x, cosines, all<F32x8>(0.0f) - y * sines),
                  turned_y = fma(y, cosines, x * sines);
      if (a.is_neox) {
        c.store(head, turned_x);
        c.store(head + a.num_pairs, turned_y);
      } else {
        c.store_pairs(head, turned_x, turned_y);
      }
    });
  }
};

void rotary_embedding(const RotaryEmbeddingArgs& args, Stream stream) {
  const std::int64_t token_elements = 2 * args.num_pairs * (args.query.num_heads + args.key.num_heads);
  for_float_kind(args.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    launch_rows(stream, args.num_tokens, token_elements, RotaryEmbeddingToken<T>{args});
  });
}

}  // namespace musaic::MUSAIC_TARGET
