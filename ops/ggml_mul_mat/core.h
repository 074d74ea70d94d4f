// The a8 product's float32 operations, one by one as the contract states them, for the backends' own loops.
#pragma once

#include "device/device.h"
#include "ops/ggml_dequantize/codes.h"
#include "ops/ggml_mul_mat/args.h"

namespace musaic::MUSAIC_TARGET {

/// Scale and reciprocal of a block, by the bits of max|x|.
struct A8Scale {
  float d, reciprocal;
  bool codes;  // false: all codes are zero
};
MUSAIC_FN A8Scale a8_scale(std::int32_t max_bits) {
  const float max = from_bits(static_cast<std::uint32_t>(max_bits));
  if (!(max < from_bits(0x7f800000u))) return {from_bits(0x7fc00000u), 0.0f, false};
  if (max < 0x1p-100f) return {0.0f, 0.0f, false};
  const float d = div(max, 127.0f);
  return {d, div(1.0f, d), true};
}

/// Eight codes. Adding the float below 1/2 and cutting rounds halves away from zero and nothing else up.
MUSAIC_FN I32x8 a8_codes(F32x8 x, float reciprocal) {
  const U32x8 sign = as_bits(x) & 0x80000000u;
  return to_int(x * all<F32x8>(reciprocal) + from_bits(sign | as_bits(all<F32x8>(0x1.fffffep-2f))));
}

/// A quantised row: codes [blocks, 32], scales [blocks], sums of codes [blocks].
struct A8Row {
  std::int8_t* code;
  float* d;
  std::int32_t* sum;
};
MUSAIC_FN A8Row a8_row(std::uint8_t* workspace, std::int64_t blocks) {
  return {reinterpret_cast<std::int8_t*>(workspace), reinterpret_cast<float*>(workspace + 32 * blocks),
          reinterpret_cast<std::int32_t*>(workspace + 36 * blocks)};
}

/// A slot after one more block. I_b and J_b are the contract's integers; J_b matters to formats with a minimum.
template <class Block>
MUSAIC_FN float a8_add(float slot, float weight_d, float weight_m, float d, std::int32_t I_b,
                       std::int32_t J_b) {
  if constexpr (Block::kMinimum)
    return fma(d, fma(weight_d, static_cast<float>(I_b), weight_m * static_cast<float>(J_b)), slot);
  else
    return fma(weight_d * d, static_cast<float>(I_b), slot);
}

}  // namespace musaic::MUSAIC_TARGET
