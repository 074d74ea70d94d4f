// Every elementary function of device/math.h over a range of float bits, as a row program: for comparing
// backends.
#pragma once

#include "device/device.h"
#include "testing/math_args.h"

namespace musaic {

namespace MUSAIC_TARGET {

template <int kFunction>
MUSAIC_FN F32x8 math_function(F32x8 x) {
#define MUSAIC_MATH_CASE(index, function) \
  if constexpr (kFunction == index) return function(x);
  MUSAIC_MATH_FUNCTIONS(MUSAIC_MATH_CASE)
#undef MUSAIC_MATH_CASE
  if constexpr (kFunction == kMathFunctions - 1) return div(all<F32x8>(1.0f), x);
}

template <int kFunction>
struct MathPart {
  static constexpr std::int64_t kElements = 2048;
  MathArgs a;

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t part) const {
    const std::int64_t begin = part * kElements, left = a.count - begin;
    float* out = a.out + begin;
    group.each(left < kElements ? left : kElements, [&](auto c) {
      const auto at = static_cast<std::uint32_t>(begin + c.begin);
      const U32x8 lane = __builtin_bit_cast(U32x8, lane_index());
      c.store(out, math_function<kFunction>(from_bits((lane + at) * a.step + a.first)));
    });
  }
};

template <int kFunction = 0>
void math_rows(const MathArgs& args, Stream stream) {
  if (args.function == kFunction) {
    constexpr std::int64_t kElements = MathPart<kFunction>::kElements;
    launch_rows(stream, (args.count + kElements - 1) / kElements, kElements, MathPart<kFunction>{args});
  } else if constexpr (kFunction + 1 < kMathFunctions) {
    math_rows<kFunction + 1>(args, stream);
  }
}

void evaluate_math(const MathArgs& args, Stream stream) { math_rows(args, stream); }

}  // namespace MUSAIC_TARGET
}  // namespace musaic
