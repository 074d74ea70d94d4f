// The computation, once for every backend.
#pragma once

#include "device/device.h"
#include "ops/moe_sum/args.h"

namespace musaic::MUSAIC_TARGET {

/// A long row is cut into parts of this many elements, which threads and blocks share; a multiple of the chunk.
inline constexpr std::int64_t kMoeSumPart = 2048;

template <class T>
struct MoeSumPart {
  MoeSumArgs a;
  std::int64_t parts;  // of one token

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t index) const {
    const std::int64_t token = parts == 1 ? index : index / parts;
    const std::int64_t begin = (index - token * parts) * kMoeSumPart, left = a.hidden_size - begin;
    const T* x = static_cast<const T*>(a.input) + token * a.token_stride + begin;
    T* y = row_of<T>(a.out, token) + begin;
    const float* w = a.weights.data == nullptr ? nullptr : row_of<const float>(a.weights, token);
    group.each(left < kMoeSumPart ? left : kMoeSumPart, [&](auto c) {
      F32x8 sum = all<F32x8>(0.0f);
      if (w == nullptr) {
        if (a.topk > 0) sum = c.load(x);
        for (std::int64_t j = 1; j < a.topk; ++j) sum = sum + c.load(x + j * a.slot_stride);
      } else {
        if (a.topk > 0) sum = all<F32x8>(w[0]) * c.load(x);
        for (std::int64_t j = 1; j < a.topk; ++j)
          sum = fma(all<F32x8>(w[j]), c.load(x + j * a.slot_stride), sum);
      }
      c.store(y, sum * all<F32x8>(a.factor));
    });
  }
};

inline void moe_sum_rows(const MoeSumArgs& args, Stream stream) {
  const std::int64_t parts = (args.hidden_size + kMoeSumPart - 1) / kMoeSumPart;
  for_float_kind(args.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    const std::int64_t part_elements = parts > 1 ? kMoeSumPart : args.hidden_size;
    launch_rows(stream, args.num_tokens * parts, part_elements * (args.topk + 1), MoeSumPart<T>{args, parts});
  });
}

void moe_sum(const MoeSumArgs& args, Stream stream) { moe_sum_rows(args, stream); }
void moe_sum_reduce(const MoeSumArgs& args, Stream stream) { moe_sum_rows(args, stream); }

}  // namespace musaic::MUSAIC_TARGET
