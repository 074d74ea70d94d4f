// The computation, once for every backend.
#pragma once

#include "device/device.h"
#include "device/float8.h"
#include "device/rounded.h"
#include "ops/quantize/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

MUSAIC_FN U32x8 encode_kind(const QuantizeArgs& a, F32x8 v) {
  // A NaN passes both comparisons as it is.
  const F32x8 x = larger(all<F32x8>(a.low), smaller(all<F32x8>(a.high), v));
  switch (a.kind) {
    case CodeKind::kSigned:
      return encode_int8(x, a.truncate);
    case CodeKind::kFiniteE4M3:
      return encode(float8_e4m3fn(), x);
    case CodeKind::kUnsignedZeroE4M3:
      return encode(float8_e4m3fnuz(), x);
    case CodeKind::kStandardE5M2:
      return encode(float8_e5m2(), x);
    default:
      return encode(float8_e5m2fnuz(), x);
  }
}

MUSAIC_FN void store_codes(FullChunk c, std::uint8_t* row, U32x8 codes) { store8_u8(row + c.begin, codes); }
MUSAIC_FN void store_codes(TailChunk c, std::uint8_t* row, U32x8 codes) {
  for (int i = 0; i < c.count; ++i) row[c.begin + i] = static_cast<std::uint8_t>(codes[i]);
}

MUSAIC_FN F32x8 size_of(F32x8 v) { return from_bits(as_bits(v) & all_bits<F32x8>(0x7fffffffu)); }

/// x / scale as x * factor * inverse, or as the quotient.
struct Scaling {
  float scale, factor, inverse;
  bool divide;

  MUSAIC_FN F32x8 operator()(F32x8 x) const {
    if (divide) return div(x, all<F32x8>(scale));
    return (x * all<F32x8>(factor)) * all<F32x8>(inverse);
  }
};
MUSAIC_FN Scaling scaling(float scale, bool divide) {
  // A scale of 0 has zeros and NaNs alone; the inverse of a tiny one would be infinite.
  const bool is_zero = scale == 0.0f, is_tiny = scale < 7.88860905e-31f;
  const float factor = is_tiny ? 1.26765060e+30f : 1.0f;  // 2^100
  return {scale, factor, is_zero ? 0.0f : div(1.0f, scale * factor), divide && !is_zero};
}

/// ceil(log2 of scale), of the bits: -127 for 0, 128 for infinity.
MUSAIC_FN int exponent_above(float scale) {
  const std::uint32_t bits = as_bits(scale);
  return static_cast<int>(bits >> 23) - 127 + ((bits & 0x7fffffu) != 0 ? 1 : 0);
}
/// 2^e for e in [-127, 128].
MUSAIC_FN float power_of_two(int e) {
  if (e > 127) return from_bits(0x7f800000u);
  return e > -127 ? from_bits(static_cast<std::uint32_t>(e + 127) << 23) : from_bits(0x00400000u);
}

template <class T>
struct QuantizeGroup {
  QuantizeArgs a;

  template <class Chunk>
  MUSAIC_FN F32x8 values(const T* x, const Chunk& c) const {
    const F32x8 v = c.load(x);
    if (!a.silu_and_mul) return v;
    return rounded(rounded(silu(v), a.dtype) * c.load(x + a.row_size), a.dtype);
  }

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t index) const {
    const std::int64_t row = a.num_groups == 1 ? index : index / a.num_groups, g = index - row * a.num_groups;
    if (a.masked_m != nullptr) {
      const std::int64_t expert = row / a.rows_per_expert, within = row % a.rows_per_expert;
      const std::int64_t rows = a.masked_m[expert];
      if (rows < 0 || rows > a.rows_per_expert) {
        if (within == 0 && g == 0)
          group.each(1, [&](auto) { raise_fault(a.bad_mask, DeviceFault::kIndexOutOfRange, expert, rows); });
        return;
      }
      if (within >= rows) return;
    }
    const T* x = row_of<const T>(a.input, row) + g * a.group_size;
    std::uint8_t* codes = row_of<std::uint8_t>(a.codes, row) + g * a.group_size;
    const float most = group.max(a.group_size, a.eps, [&](auto c) { return size_of(values(x, c)); });
    const float scale = div(most, a.high);
    const int exponent = exponent_above(scale);
    const Scaling s =
        a.power_of_two ? Scaling{scale, 1.0f, power_of_two(-exponent), false} : scaling(scale, a.truncate);
    group.each(a.group_size, [&](auto c) { store_codes(c, codes, encode_kind(a, s(values(x, c)))); });
    group.each(1, [&](auto) {
      if (!a.packed_scales) {
        row_of<float>(a.scales, row)[g * a.scale_group_stride] =
            a.power_of_two ? power_of_two(exponent) : scale;
        return;
      }
      std::uint8_t* word =
          reinterpret_cast<std::uint8_t*>(row_of<std::int32_t>(a.scales, row) + g / 4 * a.scale_group_stride);
      word[g % 4] = static_cast<std::uint8_t>(exponent + 127);
      for (std::int64_t i = g % 4 + 1; g == a.num_groups - 1 && i < 4; ++i) word[i] = 0;
    });
  }
};

inline constexpr std::int64_t kQuantizePart = 2048;

/// Raises the tensor's scale to the largest size in a part of a row.
template <class T>
struct LargestOfPart {
  QuantizeArgs a;
  std::int64_t parts;

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t index) const {
    const std::int64_t row = index / parts, begin = (index - row * parts) * kQuantizePart;
    const std::int64_t left = a.row_size - begin;
    const T* x = row_of<const T>(a.input, row) + begin;
    const float most = group.max(left < kQuantizePart ? left : kQuantizePart, 0.0f,
                                 [&](auto c) { return size_of(c.load(x)); });
    group.each(1, [&](auto) { raise_max(a.tensor_scale, most); });
  }
};

template <class T>
struct QuantizePart {
  QuantizeArgs a;
  std::int64_t parts;

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t index) const {
    const std::int64_t row = index / parts, begin = (index - row * parts) * kQuantizePart;
    const std::int64_t left = a.row_size - begin;
    const T* x = row_of<const T>(a.input, row) + begin;
    std::uint8_t* codes = row_of<std::uint8_t>(a.codes, row) + begin;
    const Scaling s = scaling(*a.tensor_scale, false);
    group.each(left < kQuantizePart ? left : kQuantizePart,
               [&](auto c) { store_codes(c, codes, encode_kind(a, s(c.load(x)))); });
  }
};

struct ClearScale {
  float* scale;
  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t) const {
    group.each(1, [&](auto) { *scale = 0.0f; });
  }
};
struct FinishScale {
  float* scale;
  float high;
  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t) const {
    group.each(1, [&](auto) { *scale = div(*scale, high); });
  }
};

template <class F>
void for_input_type(const QuantizeArgs& a, F f) {
  for_float_kind(a.dtype, [&](auto* t) { f(std::remove_pointer_t<decltype(t)>{}); });
}

void quantize_groups(const QuantizeArgs& a, Stream stream) {
  for_input_type(a, [&](auto t) {
    launch_rows(stream, a.num_rows * a.num_groups, a.group_size, QuantizeGroup<decltype(t)>{a});
  });
}

}  // namespace

void per_token_quant_8bit(const QuantizeArgs& a, Stream stream) { quantize_groups(a, stream); }
void per_token_group_quant_8bit(const QuantizeArgs& a, Stream stream) { quantize_groups(a, stream); }

void per_tensor_quant_8bit(const QuantizeArgs& a, Stream stream) {
  const std::int64_t parts = (a.row_size + kQuantizePart - 1) / kQuantizePart,
                     part = a.row_size < kQuantizePart ? a.row_size : kQuantizePart;
  for_input_type(a, [&](auto t) {
    using T = decltype(t);
    if (!a.scale_is_given) {
      launch_rows(stream, 1, 1, ClearScale{a.tensor_scale});
      launch_rows(stream, a.num_rows * parts, part, LargestOfPart<T>{a, parts});
      launch_rows(stream, 1, 1, FinishScale{a.tensor_scale, a.high});
    }
    launch_rows(stream, a.num_rows * parts, part, QuantizePart<T>{a, parts});
  });
}

}  // namespace musaic::MUSAIC_TARGET
