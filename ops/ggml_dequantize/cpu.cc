#include "backends/cpu/launch.h"
#include "ops/ggml_dequantize/args.h"
#include "ops/ggml_dequantize/codes.h"

namespace musaic::MUSAIC_TARGET {

void ggml_dequantize(const GgmlDequantizeArgs& a, Stream) {
  for_float_kind(a.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    // Units of 256 elements are whole blocks of every format.
    constexpr std::int64_t kUnit = 256;
    const std::int64_t unit_bytes = kUnit / a.layout.block_elements * a.layout.block_bytes;
    auto body = [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t first = begin * kUnit;
      const std::int64_t last = end * kUnit < a.elements ? end * kUnit : a.elements;
      dequantize_run(a.layout.type, a.weight + begin * unit_bytes, static_cast<T*>(a.out) + first,
                     last - first);
    };
    cpu::parallel((a.elements + kUnit - 1) / kUnit, 64, body);
  });
}

}  // namespace musaic::MUSAIC_TARGET
