// Weight blocks taken apart into integers and scales. This is the one reading of the formats; products and
// dequantisation both start from it (a backend's fast path has its own, tied to this one by equal bits).
#pragma once

#include <cstring>

#include "device/number.h"
#include "ops/ggml_dequantize/blocks.h"

namespace musaic::MUSAIC_TARGET {

/// Element i of a block is d * scale[i / 16] * code[i], and + m * minimum[i / 32] where the format has a
/// minimum.
template <int kSub>
struct GgmlCodes {
  float d, m;
  std::int8_t code[32 * kSub];
  std::int8_t scale[2 * kSub];
  std::uint8_t minimum[kSub];
};

MUSAIC_FN float half_at(const std::uint8_t* p) {
  Half h;
  std::memcpy(&h, p, sizeof h);
  return load(h);
}

template <int kSub>
MUSAIC_FN void unit_scales(GgmlCodes<kSub>& c) {
  for (int i = 0; i < 2 * kSub; ++i) c.scale[i] = 1;
  for (int i = 0; i < kSub; ++i) c.minimum[i] = 1;
}

/// Codes of a block of 32: nibbles of qs, low ones first, with bit i of `high` as the fifth bit, less
/// `offset`.
MUSAIC_FN void nibble_codes(const std::uint8_t* qs, std::uint32_t high, int offset, std::int8_t* code) {
  for (int i = 0; i < 16; ++i) {
    code[i] = static_cast<std::int8_t>((qs[i] & 15) + static_cast<int>(high >> i & 1) * 16 - offset);
    code[i + 16] =
        static_cast<std::int8_t>((qs[i] >> 4) + static_cast<int>(high >> (i + 16) & 1) * 16 - offset);
  }
}

MUSAIC_FN std::uint32_t u32_at(const std::uint8_t* p) {
  std::uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

struct BlockQ4_0 {
  static constexpr int kSub = 1, kBytes = 18;
  static constexpr bool kMinimum = false;
  static MUSAIC_FN void open(const std::uint8_t* p, GgmlCodes<1>& c) {
    unit_scales(c);
    c.d = half_at(p);
    nibble_codes(p + 2, 0, 8, c.code);
  }
};

struct BlockQ4_1 {
  static constexpr int kSub = 1, kBytes = 20;
  static constexpr bool kMinimum = true;
  static MUSAIC_FN void open(const std::uint8_t* p, GgmlCodes<1>& c) {
    unit_scales(c);
    c.d = half_at(p);
    c.m = half_at(p + 2);
    nibble_codes(p + 4, 0, 0, c.code);
  }
};

struct BlockQ5_0 {
  static constexpr int kSub = 1, kBytes = 22;
  static constexpr bool kMinimum = false;
  static MUSAIC_FN void open(const std::uint8_t* p, GgmlCodes<1>& c) {
    unit_scales(c);
    c.d = half_at(p);
    nibble_codes(p + 6, u32_at(p + 2), 16, c.code);
  }
};

struct BlockQ5_1 {
  static constexpr int kSub = 1, kBytes = 24;
  static constexpr bool kMinimum = true;
  static MUSAIC_FN void open(const std::uint8_t* p, GgmlCodes<1>& c) {
    unit_scales(c);
    c.d = half_at(p);
    c.m = half_at(p + 2);
    nibble_codes(p + 8, u32_at(p + 4), 0, c.code);
  }
};

struct BlockQ8_0 {
  static constexpr int kSub = 1, kBytes = 34;
  static constexpr bool kMinimum = false;
  static MUSAIC_FN void open(const std::uint8_t* p, GgmlCodes<1>& c) {
    unit_scales(c);
    c.d = half_at(p);
    std::memcpy(c.code, p + 2, 32);
  }
};

/// The eight 6-bit scales and minima that Q4_K and Q5_K pack into 12 bytes.
MUSAIC_FN void six_bit_scales(const std::uint8_t* s, GgmlCodes<8>& c) {
  for (int j = 0; j < 8; ++j) {
    const int scale = j < 4 ? s[j] & 63 : (s[j + 4] & 15) + 16 * (s[j - 4] >> 6);
    const int minimum = j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) + 16 * (s[j] >> 6);
    c.scale[2 * j] = c.scale[2 * j + 1] = static_cast<std::int8_t>(scale);
    c.minimum[j] = static_cast<std::uint8_t>(minimum);
  }
}

struct BlockQ4_K {
  static constexpr int kSub = 8, kBytes = 144;
  static constexpr bool kMinimum = true;
  static MUSAIC_FN void open(const std::uint8_t* p, GgmlCodes<8>& c) {
    c.d = half_at(p);
    c.m = -half_at(p + 2);
    six_bit_scales(p + 4, c);
    for (int pair = 0; pair < 4; ++pair)
      for (int l = 0; l < 32; ++l) {
        const std::uint8_t q = p[16 + 32 * pair + l];
        c.code[64 * pair + l] = static_cast<std::int8_t>(q & 15);
        c.code[64 * pair + 32 + l] = static_cast<std::int8_t>(q >> 4);
      }
  }
};

struct BlockQ5_K {
  static constexpr int kSub = 8, kBytes = 176;
  static constexpr bool kMinimum = true;
  static MUSAIC_FN void open(const std::uint8_t* p, GgmlCodes<8>& c) {
    c.d = half_at(p);
    c.m = -half_at(p + 2);
    six_bit_scales(p + 4, c);
    for (int pair = 0; pair < 4; ++pair)
      for (int l = 0; l < 32; ++l) {
        const std::uint8_t q = p[48 + 32 * pair + l], high = p[16 + l];
        c.code[64 * pair + l] = static_cast<std::int8_t>((q & 15) + 16 * (high >> (2 * pair) & 1));
        c.code[64 * pair + 32 + l] = static_cast<std::int8_t>((q >> 4) + 16 * (high >> (2 * pair + 1) & 1));
      }
  }
};

struct BlockQ6_K {
  static constexpr int kSub = 8, kBytes = 210;
  static constexpr bool kMinimum = false;
  static MUSAIC_FN void open(const std::uint8_t* p, GgmlCodes<8>& c) {
    c.d = half_at(p + 208);
    std::memcpy(c.scale, p + 192, 16);
    for (int half = 0; half < 2; ++half)
      for (int quarter = 0; quarter < 4; ++quarter)
        for (int l = 0; l < 32; ++l) {
          const int low = p[64 * half + 32 * (quarter & 1) + l] >> (quarter < 2 ? 0 : 4) & 15;
          const int high = p[128 + 32 * half + l] >> (2 * quarter) & 3;
          c.code[128 * half + 32 * quarter + l] = static_cast<std::int8_t>(low + 16 * high - 32);
        }
  }
};

/// Calls f with a null pointer of the block's type. Plain types have no blocks: f is not called for them.
template <class F>
MUSAIC_FN void for_block_type(GgmlType type, F&& f) {
  switch (type) {
    case GgmlType::kQ4_0:
      return f(static_cast<BlockQ4_0*>(nullptr));
    case GgmlType::kQ4_1:
      return f(static_cast<BlockQ4_1*>(nullptr));
    case GgmlType::kQ5_0:
      return f(static_cast<BlockQ5_0*>(nullptr));
    case GgmlType::kQ5_1:
      return f(static_cast<BlockQ5_1*>(nullptr));
    case GgmlType::kQ8_0:
      return f(static_cast<BlockQ8_0*>(nullptr));
    case GgmlType::kQ4_K:
      return f(static_cast<BlockQ4_K*>(nullptr));
    case GgmlType::kQ5_K:
      return f(static_cast<BlockQ5_K*>(nullptr));
    case GgmlType::kQ6_K:
      return f(static_cast<BlockQ6_K*>(nullptr));
    case GgmlType::kF32:
    case GgmlType::kF16:
    case GgmlType::kBF16:
      return;
  }
}

/// The float32 values of a block. Every product is exact (11 bits of d, at most 7 of the scale and 6 of the
/// code), so the only rounding is that of the sum with the minimum.
template <class Block>
MUSAIC_FN void block_values(const std::uint8_t* p, float* value) {
  GgmlCodes<Block::kSub> c;
  Block::open(p, c);
  for (int h = 0; h < 2 * Block::kSub; ++h) {
    const float d = c.d * static_cast<float>(c.scale[h]);
    if constexpr (Block::kMinimum) {
      const float m = c.m * static_cast<float>(c.minimum[h / 2]);
      for (int i = 0; i < 16; ++i) value[16 * h + i] = d * static_cast<float>(c.code[16 * h + i]) + m;
    } else {
      for (int i = 0; i < 16; ++i) value[16 * h + i] = d * static_cast<float>(c.code[16 * h + i]);
    }
  }
}

template <class Block, class T>
MUSAIC_FN void dequantize_blocks(const std::uint8_t* p, T* out, std::int64_t n) {
  constexpr int kElements = 32 * Block::kSub;
  float value[kElements];
  for (; n > 0; n -= kElements, p += Block::kBytes, out += kElements) {
    block_values<Block>(p, value);
    const int count = n < kElements ? static_cast<int>(n) : kElements;
    int i = 0;
    for (; i + 8 <= count; i += 8) store8(out + i, canonical(load8(value + i)));
    for (; i < count; ++i) store(out + i, value[i]);
  }
}

template <class From, class T>
MUSAIC_FN void convert_elements(const std::uint8_t* p, T* out, std::int64_t n) {
  const From* from = reinterpret_cast<const From*>(p);
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) store8(out + i, canonical(load8(from + i)));
  for (; i < n; ++i) store(out + i, load(from[i]));
}

/// n values from the block at p on.
template <class T>
inline void dequantize_run(GgmlType type, const std::uint8_t* p, T* out, std::int64_t n) {
  if (type == GgmlType::kF32) return convert_elements<float>(p, out, n);
  if (type == GgmlType::kF16) return convert_elements<Half>(p, out, n);
  if (type == GgmlType::kBF16) return convert_elements<BFloat16>(p, out, n);
  for_block_type(type, [&](auto* block) {
    using Block = std::remove_pointer_t<decltype(block)>;
    dequantize_blocks<Block>(p, out, n);
  });
}

}  // namespace musaic::MUSAIC_TARGET
