// The computation, once for every backend.
#pragma once

#include "device/device.h"
#include "ops/gated_activation/args.h"

namespace musaic::MUSAIC_TARGET {

struct Silu {
  static MUSAIC_FN F32x8 of(F32x8 x) { return silu(x); }
};
struct Gelu {
  static MUSAIC_FN F32x8 of(F32x8 x) { return gelu(x); }
};
struct GeluTanh {
  static MUSAIC_FN F32x8 of(F32x8 x) { return gelu_tanh(x); }
};

/// A long row is cut into parts of this many elements, which threads and blocks share; a multiple of the
/// chunk.
inline constexpr std::int64_t kActivationPart = 2048;

template <class T, class Activation>
struct GatedActivationPart {
  GatedActivationArgs a;
  std::int64_t parts;  // of one row

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t index) const {
    const std::int64_t row = parts == 1 ? index : index / parts;
    const std::int64_t begin = (index - row * parts) * kActivationPart;
    const std::int64_t left = a.hidden_size - begin;
    const T* gate = row_of<const T>(a.input, row) + begin;
    const T* up = gate + a.hidden_size;
    T* y = row_of<T>(a.out, row) + begin;
    group.each(left < kActivationPart ? left : kActivationPart,
               [&](auto c) { c.store(y, Activation::of(c.load(gate)) * c.load(up)); });
  }
};

template <class Activation>
void gated_activation(const GatedActivationArgs& args, Stream stream) {
  const std::int64_t parts = (args.hidden_size + kActivationPart - 1) / kActivationPart;
  for_float_kind(args.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    const std::int64_t part_elements = parts > 1 ? kActivationPart : args.hidden_size;
    launch_rows(stream, args.num_rows * parts, part_elements,
                GatedActivationPart<T, Activation>{args, parts});
  });
}

void silu_and_mul(const GatedActivationArgs& args, Stream stream) { gated_activation<Silu>(args, stream); }
void gelu_and_mul(const GatedActivationArgs& args, Stream stream) { gated_activation<Gelu>(args, stream); }
void gelu_tanh_and_mul(const GatedActivationArgs& args, Stream stream) {
  gated_activation<GeluTanh>(args, stream);
}

}  // namespace musaic::MUSAIC_TARGET
