// Weight blocks taken apart into integers and scales. This is the one reading of the formats; products and
// dequantisation both start from it (a backend's fast path may have its own, tied to this one by equal bits).
#pragma once

#include "device/number.h"
#include "ops/ggml_dequantize/blocks.h"

namespace musaic::MUSAIC_TARGET {

// Blocks lie at any address, so bytes are read by accesses that an address on a multiple of kAlign allows.

template <int kAlign = 1>
MUSAIC_FN std::uint32_t u16_at(const std::uint8_t* p) {
  if constexpr (kAlign >= 2)
    return *reinterpret_cast<const std::uint16_t*>(p);
  else
    return p[0] | std::uint32_t{p[1]} << 8;
}
template <int kAlign = 1>
MUSAIC_FN std::uint32_t u32_at(const std::uint8_t* p) {
  if constexpr (kAlign >= 4)
    return *reinterpret_cast<const std::uint32_t*>(p);
  else if constexpr (kAlign >= 2)
    return u16_at<2>(p) | u16_at<2>(p + 2) << 16;
  else
    return p[0] | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
}
template <int kAlign = 1>
MUSAIC_FN float half_at(const std::uint8_t* p) {
  return load(Half{static_cast<std::uint16_t>(u16_at<kAlign>(p))});
}

// Four codes are a word, the first one in its low byte.

/// Four codes from 0 to 63, less `offset` each, as signed bytes.
MUSAIC_FN std::uint32_t less(std::uint32_t codes, std::uint32_t offset) {
  return (codes + 0x01010101u * (128 - offset)) ^ 0x80808080u;
}
/// The low four bits of `bits` as 16s, one a byte.
MUSAIC_FN std::uint32_t fifth_bits(std::uint32_t bits) {
  return (bits & 1) << 4 | (bits & 2) << 11 | (bits & 4) << 18 | (bits & 8) << 25;
}
/// Word q of 32 codes whose nibbles lie in 16 bytes, the low ones first.
template <int kAlign>
MUSAIC_FN std::uint32_t nibbles(const std::uint8_t* qs, int q) {
  return u32_at<kAlign>(qs + 4 * (q % 4)) >> q / 4 * 4 & 0x0f0f0f0fu;
}

// A format gives: kSub, its blocks of 32 elements; kBytes; kBestAlign, of which all its addresses are multiples if the
// first one is; word<kAlign>(p, q), the codes of elements 4q to 4q + 3. Element i of a block is
// d * scale(i / 16) * code(i), and + m * minimum(i / 32) where kMinimum says that the format has one.

/// Formats with a block of 32 elements have no scales of their own inside it.
struct Block32 {
  static constexpr int kSub = 1;
  static MUSAIC_FN int scale(const std::uint8_t*, int) { return 1; }
  static MUSAIC_FN int minimum(const std::uint8_t*, int) { return 1; }
  template <int kAlign>
  static MUSAIC_FN float d(const std::uint8_t* p) {
    return half_at<kAlign>(p);
  }
  template <int kAlign>
  static MUSAIC_FN float m(const std::uint8_t* p) {
    return half_at<kAlign>(p + 2);
  }
};

struct BlockQ4_0 : Block32 {
  static constexpr int kBytes = 18, kBestAlign = 2;
  static constexpr bool kMinimum = false;
  template <int kAlign>
  static MUSAIC_FN std::uint32_t word(const std::uint8_t* p, int q) {
    return less(nibbles<kAlign>(p + 2, q), 8);
  }
};

struct BlockQ4_1 : Block32 {
  static constexpr int kBytes = 20, kBestAlign = 4;
  static constexpr bool kMinimum = true;
  template <int kAlign>
  static MUSAIC_FN std::uint32_t word(const std::uint8_t* p, int q) {
    return nibbles<kAlign>(p + 4, q);
  }
};

struct BlockQ5_0 : Block32 {
  static constexpr int kBytes = 22, kBestAlign = 2;
  static constexpr bool kMinimum = false;
  template <int kAlign>
  static MUSAIC_FN std::uint32_t word(const std::uint8_t* p, int q) {
    return less(nibbles<kAlign>(p + 6, q) | fifth_bits(u32_at<kAlign>(p + 2) >> 4 * q), 16);
  }
};

struct BlockQ5_1 : Block32 {
  static constexpr int kBytes = 24, kBestAlign = 4;
  static constexpr bool kMinimum = true;
  template <int kAlign>
  static MUSAIC_FN std::uint32_t word(const std::uint8_t* p, int q) {
    return nibbles<kAlign>(p + 8, q) | fifth_bits(u32_at<kAlign>(p + 4) >> 4 * q);
  }
};

struct BlockQ8_0 : Block32 {
  static constexpr int kBytes = 34, kBestAlign = 2;
  static constexpr bool kMinimum = false;
  template <int kAlign>
  static MUSAIC_FN std::uint32_t word(const std::uint8_t* p, int q) {
    return u32_at<kAlign>(p + 2 + 4 * q);
  }
};

/// What Q4_K and Q5_K share: eight 6-bit scales and minima in 12 bytes, and nibbles in runs of 32 bytes.
struct BlockK {
  static constexpr int kSub = 8, kBestAlign = 4;
  static constexpr bool kMinimum = true;
  static MUSAIC_FN int scale(const std::uint8_t* p, int h) {
    const std::uint8_t* s = p + 4;
    const int j = h / 2;
    return j < 4 ? s[j] & 63 : (s[j + 4] & 15) + 16 * (s[j - 4] >> 6);
  }
  static MUSAIC_FN int minimum(const std::uint8_t* p, int j) {
    const std::uint8_t* s = p + 4;
    return j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) + 16 * (s[j] >> 6);
  }
  template <int kAlign>
  static MUSAIC_FN float d(const std::uint8_t* p) {
    return half_at<kAlign>(p);
  }
  template <int kAlign>
  static MUSAIC_FN float m(const std::uint8_t* p) {
    return -half_at<kAlign>(p + 2);
  }
  template <int kAlign>
  static MUSAIC_FN std::uint32_t run_nibbles(const std::uint8_t* qs, int q) {
    return u32_at<kAlign>(qs + 32 * (q / 16) + 4 * (q % 8)) >> q % 16 / 8 * 4 & 0x0f0f0f0fu;
  }
};

struct BlockQ4_K : BlockK {
  static constexpr int kBytes = 144;
  template <int kAlign>
  static MUSAIC_FN std::uint32_t word(const std::uint8_t* p, int q) {
    return run_nibbles<kAlign>(p + 16, q);
  }
};

struct BlockQ5_K : BlockK {
  static constexpr int kBytes = 176;
  template <int kAlign>
  static MUSAIC_FN std::uint32_t word(const std::uint8_t* p, int q) {
    const std::uint32_t high = u32_at<kAlign>(p + 16 + 4 * (q % 8)) >> q / 8 & 0x01010101u;
    return run_nibbles<kAlign>(p + 48, q) | high << 4;
  }
};

struct BlockQ6_K {
  static constexpr int kSub = 8, kBytes = 210, kBestAlign = 2;
  static constexpr bool kMinimum = false;
  static MUSAIC_FN int scale(const std::uint8_t* p, int h) { return static_cast<std::int8_t>(p[192 + h]); }
  static MUSAIC_FN int minimum(const std::uint8_t*, int) { return 1; }
  template <int kAlign>
  static MUSAIC_FN float d(const std::uint8_t* p) {
    return half_at<kAlign>(p + 208);
  }
  template <int kAlign>
  static MUSAIC_FN std::uint32_t word(const std::uint8_t* p, int q) {
    const int half = q / 32, quarter = q % 32 / 8, at = 4 * (q % 8);
    const std::uint32_t low = u32_at<kAlign>(p + 64 * half + 32 * (quarter & 1) + at) >> quarter / 2 * 4;
    const std::uint32_t high = u32_at<kAlign>(p + 128 + 32 * half + at) >> 2 * quarter;
    return less((low & 0x0f0f0f0fu) | (high & 0x03030303u) << 4, 32);
  }
};

/// Code i of a word.
MUSAIC_FN int code_in(std::uint32_t word, int i) { return static_cast<std::int8_t>(word >> 8 * i & 255); }

/// A block in plain arrays.
template <class Block>
struct GgmlCodes {
  float d, m;
  std::int8_t code[32 * Block::kSub];
  std::int8_t scale[2 * Block::kSub];
  std::uint8_t minimum[Block::kSub];

  MUSAIC_FN explicit GgmlCodes(const std::uint8_t* p) {
    d = Block::template d<1>(p);
    m = 0.0f;
    if constexpr (Block::kMinimum) m = Block::template m<1>(p);
    for (int h = 0; h < 2 * Block::kSub; ++h) scale[h] = static_cast<std::int8_t>(Block::scale(p, h));
    for (int j = 0; j < Block::kSub; ++j) minimum[j] = static_cast<std::uint8_t>(Block::minimum(p, j));
    for (int q = 0; q < 8 * Block::kSub; ++q) {
      const std::uint32_t word = Block::template word<1>(p, q);
      for (int i = 0; i < 4; ++i) code[4 * q + i] = static_cast<std::int8_t>(code_in(word, i));
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

/// The float32 value of a code, of scale and minimum times their factors. Every product is exact (11 bits of d, at most
/// 7 of the scale and 6 of the code), so the only rounding is that of the sum with the minimum.
template <class Block>
MUSAIC_FN float value_of(int code, float d, float m) {
  if constexpr (Block::kMinimum) return d * static_cast<float>(code) + m;
  return d * static_cast<float>(code);
}

template <class Block>
MUSAIC_FN void block_values(const std::uint8_t* p, float* value) {
  const GgmlCodes<Block> c(p);
  for (int h = 0; h < 2 * Block::kSub; ++h) {
    const float d = c.d * static_cast<float>(c.scale[h]), m = c.m * static_cast<float>(c.minimum[h / 2]);
    for (int i = 0; i < 16; ++i) value[16 * h + i] = value_of<Block>(c.code[16 * h + i], d, m);
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
