// The computation, once for every backend.
#pragma once

#include "device/device.h"
#include "ops/fused_add_rmsnorm/args.h"

namespace musaic::MUSAIC_TARGET {

template <class T>
struct FusedAddRmsnormRow {
  FusedAddRmsnormArgs a;

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t row) const {
    T* x = row_of<T>(a.input, row);
    T* residual = row_of<T>(a.residual, row);
    const float sum = group.sum(a.hidden_size, [&](auto c, F32x8 acc) {
      const F32x8 v = c.load(x) + c.load(residual);
      return fma(v, v, acc);
    });
    const float r = div(1.0f, sqrt(div(sum, static_cast<float>(a.hidden_size)) + a.eps));
    group.sync();  // a lane may write what another has read for the sum
    // The sum is formed a second time from the inputs, so that the norm takes it unrounded and no row is too
    // long.
    group.each(a.hidden_size, [&](auto c) {
      const F32x8 v = c.load(x) + c.load(residual);
      const F32x8 normed = v * all<F32x8>(r);
      c.store(residual, v);
      c.store(x, a.weight == nullptr
                     ? normed
                     : normed * (all<F32x8>(a.weight_offset) + load_kind(c, a.weight, a.weight_dtype)));
    });
  }
};

inline void fused_add_rmsnorm_rows(const FusedAddRmsnormArgs& args, Stream stream) {
  for_float_kind(args.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    launch_rows(stream, args.num_rows, args.hidden_size, FusedAddRmsnormRow<T>{args});
  });
}

void fused_add_rmsnorm(const FusedAddRmsnormArgs& args, Stream stream) {
  fused_add_rmsnorm_rows(args, stream);
}
void gemma_fused_add_rmsnorm(const FusedAddRmsnormArgs& args, Stream stream) {
  fused_add_rmsnorm_rows(args, stream);
}

}  // namespace musaic::MUSAIC_TARGET
