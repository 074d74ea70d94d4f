// The computation, once for every backend.
#pragma once

#include "device/device.h"
#include "ops/rmsnorm/args.h"

namespace musaic::MUSAIC_TARGET {

template <class T>
struct RmsnormRow {
  RmsnormArgs a;

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t row) const {
    const T* x = row_of<const T>(a.input, row);
    T* y = row_of<T>(a.out, row);
    const float sum = group.sum(a.hidden_size, [&](auto c, F32x8 acc) {
      const F32x8 v = c.load(x);
      return fma(v, v, acc);
    });
    const float r = div(1.0f, sqrt(div(sum, static_cast<float>(a.hidden_size)) + a.eps));
    group.sync();  // a lane may write what another has read for the sum
    group.each(a.hidden_size, [&](auto c) {
      const F32x8 normed = c.load(x) * all<F32x8>(r);
      c.store(y, a.weight == nullptr
                     ? normed
                     : normed * (all<F32x8>(a.weight_offset) + load_kind(c, a.weight, a.weight_dtype)));
    });
  }
};

inline void rmsnorm_rows(const RmsnormArgs& args, Stream stream) {
  for_float_kind(args.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    launch_rows(stream, args.num_rows, args.hidden_size, RmsnormRow<T>{args});
  });
}

void rmsnorm(const RmsnormArgs& args, Stream stream) { rmsnorm_rows(args, stream); }
void gemma_rmsnorm(const RmsnormArgs& args, Stream stream) { rmsnorm_rows(args, stream); }

}  // namespace musaic::MUSAIC_TARGET
