// a8 products with AVX2, FMA and F16C: eight blocks of 32 at a time, a lane of 32 bits for each.
//
// The rows of a weight matrix are one stream of blocks, cut into groups of eight whatever the row's length:
// no lane idles at a row's end, and nothing outside the rows is read. Dword k of a group (elements 4k to 4k+3
// of its blocks) is one vector, so products need no sums across lanes, scales are applied to eight blocks at
// once, and a lane is a slot of the sum. A quantised row is stored in the same order, short ones repeated
// until they fill whole groups. Long rows whose blocks fill no whole groups are a stream each. Where a row
// begins at lane r of a group, its slot s lives in lane (s + r) mod 8; it is turned back before the tree.
//
// Zero blocks and terms of zero do not change a sum, not even a zero's sign: no accumulator is ever -0, since
// scales below 2^-107 do not occur and so no product underflows.
#pragma once

#include "device/device.h"
#include "ops/ggml_dequantize/codes.h"
#include "ops/ggml_mul_mat/args.h"

namespace musaic::MUSAIC_TARGET {

struct alignas(32) A8Group {
  std::int8_t code[8][32];  // [k][4 * block + i]: element 4k + i
  float d[8];
  float sum[8];             // of the codes
  std::int16_t half[8][2];  // sums of elements 0 to 15 and 16 to 31
};
static_assert(sizeof(A8Group) == 8 * kA8BlockBytes);

MUSAIC_FN __m256i load256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
MUSAIC_FN __m128i load128(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
/// 16 bytes from each of two places.
MUSAIC_FN __m256i load_pair(const void* low, const void* high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(low)), load128(high), 1);
}

/// 4 x 4 dwords in each half: out[j] = dword j of r[0], r[1], r[2], r[3].
MUSAIC_FN void transpose4(const __m256i r[4], __m256i out[4]) {
  const __m256i a = _mm256_unpacklo_epi32(r[0], r[1]), b = _mm256_unpackhi_epi32(r[0], r[1]);
  const __m256i c = _mm256_unpacklo_epi32(r[2], r[3]), d = _mm256_unpackhi_epi32(r[2], r[3]);
  out[0] = _mm256_unpacklo_epi64(a, c);
  out[1] = _mm256_unpackhi_epi64(a, c);
  out[2] = _mm256_unpacklo_epi64(b, d);
  out[3] = _mm256_unpackhi_epi64(b, d);
}

/// Dwords 0 to 3 of 16 bytes in each of eight blocks.
MUSAIC_FN void load_transposed(const std::uint8_t* p, int stride, __m256i out[4]) {
  __m256i r[4];
  for (int i = 0; i < 4; ++i) r[i] = load_pair(p + i * stride, p + (i + 4) * stride);
  transpose4(r, out);
}

MUSAIC_FN __m256i low_nibbles(__m256i v) { return _mm256_and_si256(v, _mm256_set1_epi8(15)); }
MUSAIC_FN __m256i high_nibbles(__m256i v) { return low_nibbles(_mm256_srli_epi16(v, 4)); }

MUSAIC_FN void nibbles_of_eight(const std::uint8_t* qs, int stride, __m256i w[8]) {
  __m256i q[4];
  load_transposed(qs, stride, q);
  for (int k = 0; k < 4; ++k) {
    w[k] = low_nibbles(q[k]);
    w[k + 4] = high_nibbles(q[k]);
  }
}

/// The first 16 bits of eight blocks. Loading two bytes earlier from each next block brings them to their
/// lanes.
template <int kStride>
MUSAIC_FN __m128i first_words(const std::uint8_t* p) {
  constexpr int kStep = kStride - 2;
  __m128i v = load128(p);
  v = _mm_blend_epi16(v, load128(p + kStep), 1 << 1);
  v = _mm_blend_epi16(v, load128(p + 2 * kStep), 1 << 2);
  v = _mm_blend_epi16(v, load128(p + 3 * kStep), 1 << 3);
  v = _mm_blend_epi16(v, load128(p + 4 * kStep), 1 << 4);
  v = _mm_blend_epi16(v, load128(p + 5 * kStep), 1 << 5);
  v = _mm_blend_epi16(v, load128(p + 6 * kStep), 1 << 6);
  return _mm_blend_epi16(v, load128(p + 7 * kStep), 1 << 7);
}

/// The first 32 bits of eight blocks, likewise. Reads from p + 0 to p + 7 * kStride + 4.
template <int kStride>
MUSAIC_FN __m256i first_dwords(const std::uint8_t* p) {
  constexpr int kStep = kStride - 4;
  __m256i v = load256(p);
  v = _mm256_blend_epi32(v, load256(p + kStep), 1 << 1);
  v = _mm256_blend_epi32(v, load256(p + 2 * kStep), 1 << 2);
  v = _mm256_blend_epi32(v, load256(p + 3 * kStep), 1 << 3);
  v = _mm256_blend_epi32(v, load256(p + 4 * kStep), 1 << 4);
  v = _mm256_blend_epi32(v, load256(p + 5 * kStep), 1 << 5);
  v = _mm256_blend_epi32(v, load256(p + 6 * kStep), 1 << 6);
  return _mm256_blend_epi32(v, load256(p + 7 * kStep), 1 << 7);
}

/// Scale and minimum from pairs of halves.
MUSAIC_FN void split_scales(__m256i pairs, __m256& d, __m256& m) {
  const __m256i order = _mm256_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15, 0, 1, 4, 5, 8,
                                         9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
  const __m256i sorted = _mm256_permute4x64_epi64(_mm256_shuffle_epi8(pairs, order), 0xd8);
  d = _mm256_cvtph_ps(_mm256_castsi256_si128(sorted));
  m = _mm256_cvtph_ps(_mm256_extracti128_si256(sorted, 1));
}

/// Adds 16 to code 4k + i where bit 4k + i of the lane's dword is set.
MUSAIC_FN void add_fifth_bits(__m256i high, __m256i w[8]) {
  const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0, 0, 4,
                                          4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
  const __m256i low = _mm256_set1_epi32(0x08040201), top = _mm256_set1_epi32(static_cast<int>(0x80402010u));
  const __m256i sixteen = _mm256_set1_epi8(16);
  for (int k = 0; k < 8; ++k) {
    const __m256i byte =
        _mm256_shuffle_epi8(high, _mm256_add_epi8(spread, _mm256_set1_epi8(static_cast<char>(k / 2))));
    const __m256i bit = k % 2 == 0 ? low : top;
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(byte, bit), bit);
    w[k] = _mm256_or_si256(w[k], _mm256_and_si256(set, sixteen));
  }
}

MUSAIC_FN __m256i code_of(const A8Group& x, int k) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(x.code[k]));
}
MUSAIC_FN __m256i ones16() { return _mm256_set1_epi16(1); }

/// sum over k of w[k] * codes, in pairs of int16: from a few vectors only, so that it cannot saturate.
MUSAIC_FN __m256i pair_sums(const __m256i* w, const A8Group& x, int first, int count) {
  __m256i s = _mm256_maddubs_epi16(w[first], code_of(x, first));
  for (int k = first + 1; k < first + count; ++k)
    s = _mm256_add_epi16(s, _mm256_maddubs_epi16(w[k], code_of(x, k)));
  return s;
}

/// What a group of weights is: codes, and factors per lane.
struct GroupWeights {
  __m256i w[8];
  __m256 d, m;         // m includes a sub-minimum
  __m256i scale, aux;  // sub-scales as pairs of int16
};

/// A term of the sum: acc = fma(a, b, acc).
struct Term {
  __m256 a, b;
};

/// With minimum: codes below 2^5, the sub-scale as pairs of int16.
template <bool kFiveBits>
MUSAIC_FN Term term_with_minimum(const GroupWeights& g, __m256i scale, const A8Group& x) {
  __m256i dot;
  if constexpr (kFiveBits) {  // 8 * 31 * 127 = 31496 fit
    dot = _mm256_add_epi32(_mm256_madd_epi16(pair_sums(g.w, x, 0, 4), scale),
                           _mm256_madd_epi16(pair_sums(g.w, x, 4, 4), scale));
  } else {  // 16 * 15 * 127 = 30480 fit
    dot = _mm256_madd_epi16(pair_sums(g.w, x, 0, 8), scale);
  }
  const __m256 minimum = _mm256_mul_ps(g.m, _mm256_load_ps(x.sum));
  return {_mm256_load_ps(x.d), _mm256_fmadd_ps(g.d, _mm256_cvtepi32_ps(dot), minimum)};
}

/// Without minimum: codes carry an offset. The difference is exact.
MUSAIC_FN Term term_with_offset(const GroupWeights& g, __m256i dot, float offset, const A8Group& x) {
  const __m256 exact =
      _mm256_fnmadd_ps(_mm256_set1_ps(offset), _mm256_load_ps(x.sum), _mm256_cvtepi32_ps(dot));
  return {_mm256_mul_ps(g.d, _mm256_load_ps(x.d)), exact};
}

template <class Block>
struct GroupOf;

template <>
struct GroupOf<BlockQ4_0> {
  static MUSAIC_FN void load(const std::uint8_t* p, GroupWeights& g) {
    nibbles_of_eight(p + 2, 18, g.w);
    g.d = _mm256_cvtph_ps(first_words<18>(p));
  }
  static MUSAIC_FN Term term(const GroupWeights& g, const A8Group& x) {
    return term_with_offset(g, _mm256_madd_epi16(pair_sums(g.w, x, 0, 8), ones16()), 8.0f, x);
  }
};

template <>
struct GroupOf<BlockQ4_1> {
  static MUSAIC_FN void load(const std::uint8_t* p, GroupWeights& g) {
    nibbles_of_eight(p + 4, 20, g.w);
    split_scales(first_dwords<20>(p), g.d, g.m);
  }
  static MUSAIC_FN Term term(const GroupWeights& g, const A8Group& x) {
    return term_with_minimum<false>(g, ones16(), x);
  }
};

template <>
struct GroupOf<BlockQ5_0> {
  static MUSAIC_FN void load(const std::uint8_t* p, GroupWeights& g) {
    nibbles_of_eight(p + 6, 22, g.w);
    add_fifth_bits(first_dwords<22>(p + 2), g.w);
    g.d = _mm256_cvtph_ps(first_words<22>(p));
  }
  static MUSAIC_FN Term term(const GroupWeights& g, const A8Group& x) {
    const __m256i dot = _mm256_add_epi32(_mm256_madd_epi16(pair_sums(g.w, x, 0, 4), ones16()),
                                         _mm256_madd_epi16(pair_sums(g.w, x, 4, 4), ones16()));
    return term_with_offset(g, dot, 16.0f, x);
  }
};

template <>
struct GroupOf<BlockQ5_1> {
  static MUSAIC_FN void load(const std::uint8_t* p, GroupWeights& g) {
    nibbles_of_eight(p + 8, 24, g.w);
    add_fifth_bits(first_dwords<24>(p + 4), g.w);
    split_scales(first_dwords<24>(p), g.d, g.m);
  }
  static MUSAIC_FN Term term(const GroupWeights& g, const A8Group& x) {
    return term_with_minimum<true>(g, ones16(), x);
  }
};

template <>
struct GroupOf<BlockQ8_0> {
  static MUSAIC_FN void load(const std::uint8_t* p, GroupWeights& g) {
    load_transposed(p + 2, 34, g.w);
    load_transposed(p + 18, 34, g.w + 4);
    g.d = _mm256_cvtph_ps(first_words<34>(p));
  }
  /// |w| * (x with w's sign): |-128| is 128 unsigned, x is never -128, and 2 * 128 * 127 fits int16.
  static MUSAIC_FN Term term(const GroupWeights& g, const A8Group& x) {
    __m256i dot = _mm256_setzero_si256();
    for (int k = 0; k < 8; ++k) {
      const __m256i products =
          _mm256_maddubs_epi16(_mm256_abs_epi8(g.w[k]), _mm256_sign_epi8(code_of(x, k), g.w[k]));
      dot = _mm256_add_epi32(dot, _mm256_madd_epi16(products, ones16()));
    }
    return {_mm256_mul_ps(g.d, _mm256_load_ps(x.d)), _mm256_cvtepi32_ps(dot)};
  }
};

/// Scales of Q4_K and Q5_K: d, the six-bit scales as pairs, the minimum's factor -dmin * m (exact).
MUSAIC_FN void load_six_bit_scales(const std::uint8_t* p, GroupWeights& g) {
  const std::uint32_t a = u32_at(p + 4), b = u32_at(p + 8), c = u32_at(p + 12);
  const std::uint64_t scales =
      (a & 0x3f3f3f3fu) | (std::uint64_t{(c & 0x0f0f0f0fu) | (a >> 2 & 0x30303030u)} << 32);
  const std::uint64_t minima =
      (b & 0x3f3f3f3fu) | (std::uint64_t{(c >> 4 & 0x0f0f0f0fu) | (b >> 2 & 0x30303030u)} << 32);
  const __m256i scale = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(scales)));
  const __m256i minimum = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(minima)));
  g.scale = _mm256_or_si256(scale, _mm256_slli_epi32(scale, 16));
  const __m128 dm = _mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(u32_at(p))));
  g.d = _mm256_broadcastss_ps(dm);
  g.m = _mm256_mul_ps(_mm256_broadcastss_ps(_mm_xor_ps(_mm_movehdup_ps(dm), _mm_set1_ps(-0.0f))),
                      _mm256_cvtepi32_ps(minimum));
}

/// Nibbles of four chunks of 32 bytes, each two blocks of 32, as dwords of eight blocks.
MUSAIC_FN void nibbles_of_chunks(const std::uint8_t* qs, __m256i w[8]) {
  for (int half = 0; half < 2; ++half) {
    const std::uint8_t* p = qs + 16 * half;
    const __m256i even = load_pair(p, p + 64), odd = load_pair(p + 32, p + 96);
    const __m256i r[4] = {low_nibbles(even), high_nibbles(even), low_nibbles(odd), high_nibbles(odd)};
    transpose4(r, w + 4 * half);
  }
}

template <>
struct GroupOf<BlockQ4_K> {
  static MUSAIC_FN void load(const std::uint8_t* p, GroupWeights& g) {
    nibbles_of_chunks(p + 16, g.w);
    load_six_bit_scales(p, g);
  }
  static MUSAIC_FN Term term(const GroupWeights& g, const A8Group& x) {
    return term_with_minimum<false>(g, g.scale, x);
  }
};

template <>
struct GroupOf<BlockQ5_K> {
  static MUSAIC_FN void load(const std::uint8_t* p, GroupWeights& g) {
    nibbles_of_chunks(p + 48, g.w);
    // Bit j of byte l is that of element l in block j: moved to bit 4 in lane j.
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (int k = 0; k < 8; ++k) {
      const __m256i bytes = _mm256_set1_epi32(static_cast<int>(u32_at(p + 16 + 4 * k)));
      const __m256i bits = _mm256_and_si256(_mm256_srlv_epi32(bytes, lane), _mm256_set1_epi8(1));
      g.w[k] = _mm256_or_si256(g.w[k], _mm256_slli_epi32(bits, 4));
    }
    load_six_bit_scales(p, g);
  }
  static MUSAIC_FN Term term(const GroupWeights& g, const A8Group& x) {
    return term_with_minimum<true>(g, g.scale, x);
  }
};

template <>
struct GroupOf<BlockQ6_K> {
  static MUSAIC_FN void load(const std::uint8_t* p, GroupWeights& g) {
    const __m256i top = _mm256_set1_epi8(0x30);
    for (int half = 0; half < 2; ++half) {
      const std::uint8_t* ql = p + 16 * half;
      const std::uint8_t* qh = p + 128 + 16 * half;
      const __m256i even = load_pair(ql, ql + 64), odd = load_pair(ql + 32, ql + 96),
                    high = load_pair(qh, qh + 32);
      const __m256i r[4] = {
          _mm256_or_si256(low_nibbles(even), _mm256_and_si256(_mm256_slli_epi16(high, 4), top)),
          _mm256_or_si256(low_nibbles(odd), _mm256_and_si256(_mm256_slli_epi16(high, 2), top)),
          _mm256_or_si256(high_nibbles(even), _mm256_and_si256(high, top)),
          _mm256_or_si256(high_nibbles(odd), _mm256_and_si256(_mm256_srli_epi16(high, 2), top))};
      transpose4(r, g.w + 4 * half);
    }
    const __m256i pairs = _mm256_cvtepi8_epi16(load128(p + 192));
    g.aux = pairs;
    const __m256i first = _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1, 0, 1, 4,
                                           5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);
    g.scale = _mm256_shuffle_epi8(pairs, first);
    g.m = _mm256_castsi256_ps(_mm256_shuffle_epi8(pairs, _mm256_add_epi8(first, _mm256_set1_epi8(2))));
    g.d = _mm256_set1_ps(half_at(p + 208));
  }
  /// Codes below 2^6 with offset 32; two vectors of products fit int16 (4 * 63 * 127 = 32004).
  static MUSAIC_FN Term term(const GroupWeights& g, const A8Group& x) {
    const __m256i second = _mm256_castps_si256(g.m);
    const __m256i a = _mm256_add_epi32(_mm256_madd_epi16(pair_sums(g.w, x, 0, 2), g.scale),
                                       _mm256_madd_epi16(pair_sums(g.w, x, 2, 2), g.scale));
    const __m256i b = _mm256_add_epi32(_mm256_madd_epi16(pair_sums(g.w, x, 4, 2), second),
                                       _mm256_madd_epi16(pair_sums(g.w, x, 6, 2), second));
    const __m256i offset = _mm256_madd_epi16(g.aux, load256(x.half));
    const __m256i dot = _mm256_sub_epi32(_mm256_add_epi32(a, b), _mm256_slli_epi32(offset, 5));
    return {_mm256_mul_ps(g.d, _mm256_load_ps(x.d)), _mm256_cvtepi32_ps(dot)};
  }
};

/// Weights stream from memory once, and the processor's own prefetch stops at the ends of pages: 14 % of a
/// decode step's products. An address beyond the weights is harmless, since a prefetch cannot fault.
template <std::int64_t kBytes>
MUSAIC_FN void prefetch_group(const std::uint8_t* p) {
  constexpr std::uintptr_t kAhead = 2048;
  for (std::uintptr_t i = 0; i < kBytes; i += 64)
    _mm_prefetch(reinterpret_cast<const char*>(reinterpret_cast<std::uintptr_t>(p) + kAhead + i),
                 _MM_HINT_T0);
}

/// Where the sums of a tile go: tile[token * stride + row].
template <int kTokens>
struct StreamSums {
  float* tile;
  std::int64_t stride, blocks;
  std::int64_t row = 0, row_begin = 0;  // position of the row's first block in the stream
  std::int64_t edge = 0;                // where the current segment ends
  bool first_segment = true;
  __m256 acc[kTokens];
  // Up to eight finished rows wait for their trees.
  __m256 waiting[kTokens][8] = {};
  int num_waiting = 0;
  float total[kTokens] = {};

  MUSAIC_FN void clear() {
    for (int t = 0; t < kTokens; ++t) acc[t] = _mm256_setzero_ps();
  }
  MUSAIC_FN void next_segment() {
    const std::int64_t row_end = row_begin + blocks;
    edge = row_end - edge > kA8Segment ? edge + kA8Segment : row_end;
  }
  /// The segment that ends at `edge` has these sums.
  MUSAIC_FN void finish_segment(const __m256* sums) {
    const int rotation = static_cast<int>(row_begin & 7);
    const bool last_segment = edge == row_begin + blocks;
    const __m256i order = _mm256_and_si256(
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(rotation)),
        _mm256_set1_epi32(7));
    if (first_segment && last_segment) {
      for (int t = 0; t < kTokens; ++t) waiting[t][num_waiting] = _mm256_permutevar8x32_ps(sums[t], order);
      if (++num_waiting == 8) store_waiting(row + 1);
    } else {
      for (int t = 0; t < kTokens; ++t) {
        const float part = tree_sum(__builtin_bit_cast(F32x8, _mm256_permutevar8x32_ps(sums[t], order)));
        total[t] = first_segment ? part : total[t] + part;
        if (last_segment) tile[t * stride + row] = total[t];
      }
    }
    first_segment = last_segment;
    if (last_segment) {
      ++row;
      row_begin = edge;
    }
    next_segment();
  }
  MUSAIC_FN void store_waiting(std::int64_t end) {
    for (int t = 0; t < kTokens; ++t) {
      const F32x8 sums = tree_sums8(reinterpret_cast<const F32x8*>(waiting[t]));
      float* to = tile + t * stride + end - num_waiting;
      if (num_waiting == 8) {
        store8(to, sums);
      } else {
        for (int i = 0; i < num_waiting; ++i) to[i] = sums[i];
      }
    }
    num_waiting = 0;
  }
};

/// Dot products of `rows` weight rows of `blocks` > 0 blocks with kTokens quantised rows of `period` groups.
template <class Block, int kTokens>
inline void a8_stream(const std::uint8_t* weight, std::int64_t rows, const A8Group* x, std::int64_t period,
                      std::int64_t blocks, float* tile, std::int64_t tile_stride) {
  using Group = GroupOf<Block>;
  constexpr std::int64_t kGroupBytes = Block::kBytes * (8 / Block::kSub);
  const std::int64_t total = rows * blocks;
  StreamSums<kTokens> sums;
  sums.tile = tile;
  sums.stride = tile_stride;
  sums.blocks = blocks;
  sums.clear();
  sums.next_segment();
  std::int64_t at = 0;  // group of x
  GroupWeights g;
  for (std::int64_t position = 0; position < total;) {
    for (; position + 8 <= sums.edge; position += 8) {
      prefetch_group<kGroupBytes>(weight);
      Group::load(weight, g);
      for (int t = 0; t < kTokens; ++t) {
        const Term term = Group::term(g, x[t * period + at]);
        sums.acc[t] = _mm256_fmadd_ps(term.a, term.b, sums.acc[t]);
      }
      weight += kGroupBytes;
      at = at + 1 == period ? 0 : at + 1;
    }
    if (position == sums.edge) {
      sums.finish_segment(sums.acc);
      sums.clear();
      continue;
    }
    if constexpr (Block::kSub == 1) {
      // The segment ends inside this group. The stream's last blocks are copied, so that the group is whole.
      alignas(32) std::uint8_t last[kGroupBytes];
      const std::uint8_t* p = weight;
      if (total - position < 8) {
        std::memset(last, 0, sizeof last);
        std::memcpy(last, weight, static_cast<std::size_t>((total - position) * Block::kBytes));
        p = last;
      }
      Group::load(p, g);
      Term term[kTokens];
      for (int t = 0; t < kTokens; ++t) term[t] = Group::term(g, x[t * period + at]);
      const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
      std::int64_t low = 0;
      for (;;) {
        const std::int64_t high = sums.edge - position < 8 ? sums.edge - position : 8;
        const __m256 inside = _mm256_castsi256_ps(
            _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(low)), lane),
                                _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(high)), lane)));
        for (int t = 0; t < kTokens; ++t)
          sums.acc[t] =
              _mm256_blendv_ps(sums.acc[t], _mm256_fmadd_ps(term[t].a, term[t].b, sums.acc[t]), inside);
        if (sums.edge > position + 8) break;
        sums.finish_segment(sums.acc);
        sums.clear();
        low = high;
        if (low == 8 || position + low == total) break;
      }
      position += 8;
      weight += kGroupBytes;
      at = at + 1 == period ? 0 : at + 1;
    }
  }
  if (sums.num_waiting > 0) sums.store_waiting(rows);
}

/// Codes of a row's blocks before they take their places in groups.
struct A8Natural {
  alignas(32) std::int8_t code[32];  // in the order of packs: dwords 0 2 4 6 1 3 5 7
};

/// Eight blocks from eight places, with `count[i]` elements each.
template <class T>
MUSAIC_FN void a8_quantize8(const T* const* from, A8Natural* to, float* scales) {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
  __m256i m[8];
  for (int b = 0; b < 8; ++b) {
    __m256i v[4];
    for (int i = 0; i < 4; ++i) v[i] = _mm256_castps_si256(_mm256_and_ps(load8(from[b] + 8 * i), magnitude));
    m[b] = _mm256_max_epi32(_mm256_max_epi32(v[0], v[1]), _mm256_max_epi32(v[2], v[3]));
  }
  for (int i = 0; i < 4; ++i)
    m[i] = _mm256_max_epi32(_mm256_unpacklo_epi32(m[2 * i], m[2 * i + 1]),
                            _mm256_unpackhi_epi32(m[2 * i], m[2 * i + 1]));
  for (int i = 0; i < 2; ++i)
    m[i] = _mm256_max_epi32(_mm256_unpacklo_epi64(m[2 * i], m[2 * i + 1]),
                            _mm256_unpackhi_epi64(m[2 * i], m[2 * i + 1]));
  const __m256i bits = _mm256_max_epi32(_mm256_permute2x128_si256(m[0], m[1], 0x20),
                                        _mm256_permute2x128_si256(m[0], m[1], 0x31));
  const __m256 largest = _mm256_castsi256_ps(bits);
  const __m256 bad = _mm256_castsi256_ps(_mm256_cmpgt_epi32(bits, _mm256_set1_epi32(0x7f7fffff)));
  const __m256 used = _mm256_andnot_ps(bad, _mm256_cmp_ps(largest, _mm256_set1_ps(0x1p-100f), _CMP_GE_OQ));
  const __m256 d = _mm256_and_ps(_mm256_div_ps(largest, _mm256_set1_ps(127.0f)), used);
  alignas(32) float reciprocal[8];
  alignas(32) std::int32_t use[8];
  _mm256_store_ps(reciprocal, _mm256_div_ps(_mm256_set1_ps(1.0f), d));
  _mm256_store_ps(reinterpret_cast<float*>(use), used);
  _mm256_storeu_ps(scales, _mm256_blendv_ps(d, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), bad));
  const __m256 below_half = _mm256_set1_ps(0x1.fffffep-2f), sign = _mm256_set1_ps(-0.0f);
  for (int b = 0; b < 8; ++b) {
    const __m256 r = _mm256_broadcast_ss(reciprocal + b),
                 keep = _mm256_castsi256_ps(_mm256_set1_epi32(use[b]));
    __m256i q[4];
    for (int i = 0; i < 4; ++i) {
      const __m256 x = _mm256_and_ps(load8(from[b] + 8 * i), keep);
      const __m256 scaled = _mm256_mul_ps(x, r);
      q[i] = _mm256_cvttps_epi32(_mm256_add_ps(scaled, _mm256_or_ps(_mm256_and_ps(x, sign), below_half)));
    }
    const __m256i codes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
    _mm256_store_si256(reinterpret_cast<__m256i*>(to[b].code),
                       _mm256_and_si256(codes, _mm256_castps_si256(keep)));
  }
}

/// A group from eight blocks.
MUSAIC_FN void a8_group(const A8Natural* const* from, __m256 d, A8Group& to) {
  __m256i r[8], t[8];
  for (int b = 0; b < 8; ++b) r[b] = _mm256_load_si256(reinterpret_cast<const __m256i*>(from[b]->code));
  transpose4(r, t);
  transpose4(r + 4, t + 4);
  __m256i sums[2];
  for (int half = 0; half < 2; ++half) {
    __m256i s = _mm256_setzero_si256();
    for (int k = 4 * half; k < 4 * half + 4; ++k) {
      const __m256i v = k % 2 == 0 ? _mm256_permute2x128_si256(t[k / 2], t[k / 2 + 4], 0x20)
                                   : _mm256_permute2x128_si256(t[k / 2], t[k / 2 + 4], 0x31);
      _mm256_store_si256(reinterpret_cast<__m256i*>(to.code[k]), v);
      s = _mm256_add_epi16(s, _mm256_maddubs_epi16(_mm256_set1_epi8(1), v));
    }
    sums[half] = _mm256_madd_epi16(s, ones16());
  }
  _mm256_store_ps(to.d, d);
  _mm256_store_ps(to.sum, _mm256_cvtepi32_ps(_mm256_add_epi32(sums[0], sums[1])));
  _mm256_store_si256(reinterpret_cast<__m256i*>(to.half),
                     _mm256_blend_epi16(sums[0], _mm256_slli_epi32(sums[1], 16), 0xaa));
}

template <class T>
inline void a8_quantize(const T* x, std::int64_t k, std::int64_t blocks, std::uint8_t* workspace) {
  A8Group* groups = reinterpret_cast<A8Group*>(workspace);
  const std::int64_t num_groups = a8_row_blocks(blocks) / 8;
  // The elements of the last, ragged block and the zeros behind them.
  T ragged[32] = {};
  T zeros[32] = {};
  const std::int64_t whole = k / 32;
  for (std::int64_t i = 32 * whole; i < k; ++i) ragged[i - 32 * whole] = x[i];
  const auto place = [&](std::int64_t b) -> const T* {
    return b < whole ? x + 32 * b : b == whole ? ragged : zeros;
  };
  A8Natural natural[kA8RepeatedBlocks + 8];
  alignas(32) float scale[kA8RepeatedBlocks + 8];
  const T* from[8];
  const A8Natural* ordered[8];
  if (blocks % 8 != 0 && blocks <= kA8RepeatedBlocks) {
    for (std::int64_t b = 0; b < blocks; b += 8) {
      for (int i = 0; i < 8; ++i) from[i] = b + i < blocks ? place(b + i) : zeros;
      a8_quantize8(from, natural + b, scale + b);
    }
    std::int64_t b = 0;
    for (std::int64_t g = 0; g < num_groups; ++g) {
      alignas(32) float d[8];
      for (int i = 0; i < 8; ++i) {
        ordered[i] = natural + b;
        d[i] = scale[b];
        b = b + 1 == blocks ? 0 : b + 1;
      }
      a8_group(ordered, _mm256_load_ps(d), groups[g]);
    }
    return;
  }
  for (int i = 0; i < 8; ++i) ordered[i] = natural + i;
  for (std::int64_t g = 0; g < num_groups; ++g) {
    for (int i = 0; i < 8; ++i) from[i] = place(8 * g + i);
    a8_quantize8(from, natural, scale);
    a8_group(ordered, _mm256_load_ps(scale), groups[g]);
  }
}

template <class Block>
inline void a8_tile(const std::uint8_t* weight, std::int64_t row_bytes, std::int64_t rows,
                    std::uint8_t* workspace, std::int64_t token_bytes, std::int64_t tokens,
                    std::int64_t blocks, float* tile, std::int64_t tile_stride) {
  const std::int64_t period = token_bytes / static_cast<std::int64_t>(sizeof(A8Group));
  const A8Group* x = reinterpret_cast<const A8Group*>(workspace);
  const bool one_stream = period * 8 % blocks == 0;
  const std::int64_t rows_at_once = one_stream ? rows : 1;
  std::int64_t t = 0;
  const auto run = [&](auto tokens_at_once) {
    for (; t + tokens_at_once() <= tokens; t += tokens_at_once())
      for (std::int64_t r = 0; r < rows; r += rows_at_once)
        a8_stream<Block, tokens_at_once()>(weight + r * row_bytes, rows_at_once, x + t * period, period,
                                           blocks, tile + t * tile_stride + r, tile_stride);
  };
  run(std::integral_constant<int, 8>());
  run(std::integral_constant<int, 4>());
  run(std::integral_constant<int, 2>());
  run(std::integral_constant<int, 1>());
}

}  // namespace musaic::MUSAIC_TARGET
