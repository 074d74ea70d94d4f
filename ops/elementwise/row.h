// The computation, once for every backend.
#pragma once

#include "device/device.h"
#include "ops/elementwise/args.h"

namespace musaic::MUSAIC_TARGET {

/// A long row is cut into parts of this many elements, which threads and blocks share; a multiple of the chunk.
inline constexpr std::int64_t kElementwisePart = 2048;

struct GeluQuick {
  static MUSAIC_FN F32x8 of(F32x8 x, F32x8, float) {
    // Below -64 the result is -0 whatever x is; cut off there, an infinity meets no zero.
    const F32x8 v = larger(all<F32x8>(-64.0f), x);
    return v * logistic(all<F32x8>(1.702f) * v);
  }
};
struct MulAdd {
  static MUSAIC_FN F32x8 of(F32x8 x, F32x8 bias, float scale) { return fma(x, all<F32x8>(scale), bias); }
};

template <class T, class Function>
struct ElementwisePart {
  ElementwiseArgs a;
  std::int64_t parts;  // of one row

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t index) const {
    const std::int64_t row = parts == 1 ? index : index / parts,
                       begin = (index - row * parts) * kElementwisePart;
    const std::int64_t left = a.row_size - begin;
    const T* x = row_of<const T>(a.input, row) + begin;
    const T* bias = a.bias.data == nullptr ? nullptr : row_of<const T>(a.bias, row) + begin;
    T* y = row_of<T>(a.out, row) + begin;
    group.each(left < kElementwisePart ? left : kElementwisePart, [&](auto c) {
      c.store(y, Function::of(c.load(x), bias == nullptr ? all<F32x8>(-0.0f) : c.load(bias), a.scale));
    });
  }
};

template <class Function>
void elementwise(const ElementwiseArgs& args, Stream stream) {
  const std::int64_t parts = (args.row_size + kElementwisePart - 1) / kElementwisePart;
  for_float_kind(args.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    launch_rows(stream, args.num_rows * parts,
                args.row_size < kElementwisePart ? args.row_size : kElementwisePart,
                ElementwisePart<T, Function>{args, parts});
  });
}

void gelu_quick(const ElementwiseArgs& args, Stream stream) { elementwise<GeluQuick>(args, stream); }
void fused_mul_add(const ElementwiseArgs& args, Stream stream) { elementwise<MulAdd>(args, stream); }

}  // namespace musaic::MUSAIC_TARGET
