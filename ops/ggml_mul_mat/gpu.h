// Three kernels: activations are quantised, then few tokens take a warp a weight row (eight slots of four lanes), and
// many take tiles of rows and tokens in shared memory (a lane a slot).
#pragma once

#include "backends/backend.h"
#include "ops/ggml_mul_mat/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kQuantizeThreads = 128;
inline constexpr int kVectorThreads = 128;
inline constexpr int kVectorRows = kVectorThreads / 32;  // of a block
inline constexpr int kVectorTokens = 4;  // that share a reading of the weights, unless there is one
inline constexpr std::int64_t kMostVectorTokens = 12;  // above, tiles
inline constexpr int kTileThreads = 256;
inline constexpr int kTile = 32;  // rows and tokens
inline constexpr int kSlots = static_cast<int>(kA8Slots);

struct A8Product {
  GgmlMulMatArgs args;
  std::int64_t blocks;  // of 32 in a row
  std::int64_t token_bytes;

  MUSAIC_FN A8Row token(std::int64_t t) const { return a8_row(args.workspace + t * token_bytes, blocks); }
};

MUSAIC_FN void store_element(const GgmlMulMatArgs& a, std::int64_t token, std::int64_t row, float v) {
  if (a.out_dtype == FloatKind::kF32) store(row_of<float>(a.out, token) + row, v);
  if (a.out_dtype == FloatKind::kF16) store(row_of<Half>(a.out, token) + row, v);
  if (a.out_dtype == FloatKind::kBF16) store(row_of<BFloat16>(a.out, token) + row, v);
}

/// Eight elements of x from index i on; zeros where there are none.
MUSAIC_FN F32x8 activations(const GgmlMulMatArgs& a, std::int64_t token, std::int64_t i) {
  const void* x = a.x_dtype == FloatKind::kF32
                      ? static_cast<const void*>(row_of<const float>(a.x, token))
                      : static_cast<const void*>(row_of<const std::uint16_t>(a.x, token));
  if (i + 8 <= a.k) return load_kind(FullChunk{i}, x, a.x_dtype);
  return load_kind(TailChunk{i, i < a.k ? static_cast<int>(a.k - i) : 0}, x, a.x_dtype);
}

/// Four lanes a block of 32.
__global__ void __launch_bounds__(kQuantizeThreads) a8_quantize_kernel(const A8Product p) {
  MUSAIC_LAUNCH_BOUNDS(kQuantizeThreads);
  const std::int64_t parts = 4 * p.blocks, items = p.args.num_tokens * parts;
  const std::int64_t step = std::int64_t{gridDim.x} * kQuantizeThreads;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kQuantizeThreads; first < items; first += step) {
    const std::int64_t wanted = first + threadIdx.x, item = wanted < items ? wanted : items - 1;
    const std::int64_t token = item / parts, i = 8 * (item - token * parts);
    const F32x8 x = activations(p.args, token, i);
    std::int32_t max_bits = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const auto magnitude = static_cast<std::int32_t>(as_bits(x[j]) & 0x7fffffffu);
      max_bits = max_bits < magnitude ? magnitude : max_bits;
    }
    for (int by = 1; by < 4; by *= 2) {
      const std::int32_t other = exchange_xor(max_bits, by);
      max_bits = max_bits < other ? other : max_bits;
    }
    const A8Scale scale = a8_scale(max_bits);
    const I32x8 q = scale.codes ? a8_codes(x, scale.reciprocal) : splat(I32x8{}, 0);
    std::uint32_t word[2] = {0, 0};
    std::int32_t sum = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      word[j / 4] |= (static_cast<std::uint32_t>(q[j]) & 255u) << 8 * (j % 4);
      sum += q[j];
    }
    for (int by = 1; by < 4; by *= 2) sum += exchange_xor(sum, by);
    if (wanted < items) {
      const A8Row row = p.token(token);
      *reinterpret_cast<uint2*>(row.code + i) = uint2{word[0], word[1]};
      if (i % 32 == 0) {
        row.d[i / 32] = scale.d;
        row.sum[i / 32] = sum;
      }
    }
  }
}

/// What a block of 32 elements, number j in the format's block at p, multiplies its dot products with.
template <class Block>
struct Factors {
  float d, m;
  int scale[2], minimum;

  template <int kAlign>
  MUSAIC_FN void load(const std::uint8_t* p, int j) {
    d = Block::template d<kAlign>(p);
    m = 0.0f;
    if constexpr (Block::kMinimum) m = Block::template m<kAlign>(p);
    scale[0] = Block::scale(p, 2 * j);
    scale[1] = Block::scale(p, 2 * j + 1);
    minimum = Block::minimum(p, j);
  }
};

/// The products of a weight row with kTokens tokens, in all lanes of a warp. Lane 4 s + i does words i and i + 4 of the
/// blocks of slot s.
template <class Block, int kAlign, int kTokens>
MUSAIC_FN void row_products(const std::uint8_t* weights, std::int64_t blocks, const A8Row* x, float* total) {
  const int lane = static_cast<int>(threadIdx.x) % 32, slot = lane / 4, part = lane % 4;
  float slots[kTokens];
#pragma unroll
  for (int t = 0; t < kTokens; ++t) slots[t] = total[t] = 0.0f;
  for (std::int64_t first = 0; first < blocks; first += kSlots) {
    const bool exists = first + slot < blocks;
    const std::int64_t b = exists ? first + slot : first;
    const std::uint8_t* p = weights + b / Block::kSub * Block::kBytes;
    const auto j = static_cast<int>(b % Block::kSub);
    Factors<Block> f;
    f.template load<kAlign>(p, j);
    const std::uint32_t low = Block::template word<kAlign>(p, 8 * j + part),
                        high = Block::template word<kAlign>(p, 8 * j + part + 4);
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      const auto* code = reinterpret_cast<const std::uint32_t*>(x[t].code + 32 * b);
      std::int32_t dot = f.scale[0] * dot4(low, code[part], 0) + f.scale[1] * dot4(high, code[part + 4], 0);
      dot += exchange_xor(dot, 1);
      dot += exchange_xor(dot, 2);
      std::int32_t sum = 0;
      if constexpr (Block::kMinimum) sum = f.minimum * x[t].sum[b];
      const float next = a8_add<Block>(slots[t], f.d, f.m, x[t].d[b], dot, sum);
      slots[t] = exists ? next : slots[t];
    }
    const std::int64_t done = first + kSlots;
    if (done % kA8Segment == 0 || done >= blocks) {
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        for (int by = 4; by < 32; by *= 2) slots[t] += exchange_xor(slots[t], by);
        total[t] = done <= kA8Segment ? slots[t] : total[t] + slots[t];
        slots[t] = 0.0f;
      }
    }
  }
}

template <class Block, int kTokens>
__global__ void __launch_bounds__(kVectorThreads) a8_vector_kernel(const A8Product p) {
  MUSAIC_LAUNCH_BOUNDS(kVectorThreads);
  const GgmlMulMatArgs& a = p.args;
  const std::int64_t groups = (a.rows + kVectorRows - 1) / kVectorRows,
                     items = groups * ((a.num_tokens + kTokens - 1) / kTokens);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const bool aligned = reinterpret_cast<std::uintptr_t>(a.weight) % Block::kBestAlign == 0;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    // Warps and tokens beyond the last do the last one's work again.
    const std::int64_t wanted = item % groups * kVectorRows + warp,
                       row = wanted < a.rows ? wanted : a.rows - 1;
    const std::int64_t token = item / groups * kTokens;
    A8Row x[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) x[t] = p.token(token + t < a.num_tokens ? token + t : a.num_tokens - 1);
    float total[kTokens];
    if (aligned)
      row_products<Block, Block::kBestAlign, kTokens>(a.weight + row * a.row_bytes, p.blocks, x, total);
    else
      row_products<Block, 1, kTokens>(a.weight + row * a.row_bytes, p.blocks, x, total);
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
      if (lane == t && wanted < a.rows && token + t < a.num_tokens)
        store_element(a, token + t, row, total[t]);
  }
}

/// Eight blocks, one a slot, of each of a tile's rows or tokens: words of four codes, ordered so that the lanes of eight
/// slots read 128 bytes in a row.
struct alignas(16) TileCodes {
  std::uint32_t word[kTile][2][kSlots]
                    [4];  // [row][half][slot]: words 4 half to 4 half + 3 of the slot's block
};
template <class Block>
struct A8Tile {
  TileCodes weights, activations;
  Factors<Block> factors[kTile][kSlots];
  float d[kTile][kSlots];
  std::int32_t sum[kTile][kSlots];
};

template <class Block, int kAlign>
MUSAIC_FN void load_weights(const A8Product& p, std::int64_t first_row, std::int64_t first,
                            A8Tile<Block>& tile) {
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t last_row = p.args.rows - 1;
  constexpr int kWords = 8 * kSlots;  // of a row
#pragma unroll
  for (int i = 0; i < kTile * kWords / kTileThreads; ++i) {
    const int r = thread / kWords + kTileThreads / kWords * i, slot = thread % kWords / 8, q = thread % 8;
    const std::int64_t row = first_row + r < last_row ? first_row + r : last_row, b = first + slot;
    const std::uint8_t* at = p.args.weight + row * p.args.row_bytes + b / Block::kSub * Block::kBytes;
    std::uint32_t word = 0;
    if (b < p.blocks) word = Block::template word<kAlign>(at, 8 * static_cast<int>(b % Block::kSub) + q);
    tile.weights.word[r][q / 4][slot][q % 4] = word;
  }
  const int r = thread / kSlots, slot = thread % kSlots;
  const std::int64_t row = first_row + r < last_row ? first_row + r : last_row, b = first + slot;
  Factors<Block> f{0.0f, 0.0f, {0, 0}, 0};
  if (b < p.blocks)
    f.template load<kAlign>(p.args.weight + row * p.args.row_bytes + b / Block::kSub * Block::kBytes,
                            static_cast<int>(b % Block::kSub));
  tile.factors[r][slot] = f;
}

template <class Block>
MUSAIC_FN void load_activations(const A8Product& p, std::int64_t first_token, std::int64_t first,
                                A8Tile<Block>& tile) {
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t last_token = p.args.num_tokens - 1;
  constexpr int kQuads = 2 * kSlots;  // of four words in a token
#pragma unroll
  for (int i = 0; i < kTile * kQuads / kTileThreads; ++i) {
    const int t = thread / kQuads + kTileThreads / kQuads * i, slot = thread % kQuads / 2, half = thread % 2;
    const A8Row x = p.token(first_token + t < last_token ? first_token + t : last_token);
    const std::int64_t b = first + slot;
    uint4 words = {0, 0, 0, 0};
    if (b < p.blocks) words = *reinterpret_cast<const uint4*>(x.code + 32 * b + 16 * half);
    *reinterpret_cast<uint4*>(tile.activations.word[t][half][slot]) = words;
  }
  const int t = thread / kSlots, slot = thread % kSlots;
  const A8Row x = p.token(first_token + t < last_token ? first_token + t : last_token);
  const bool exists = first + slot < p.blocks;
  tile.d[t][slot] = exists ? x.d[first + slot] : 0.0f;
  tile.sum[t][slot] = exists ? x.sum[first + slot] : 0;
}

MUSAIC_FN void load_block(const TileCodes& codes, int row, int slot, std::uint32_t* word) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 v = *reinterpret_cast<const uint4*>(codes.word[row][half][slot]);
    word[4 * half] = v.x;
    word[4 * half + 1] = v.y;
    word[4 * half + 2] = v.z;
    word[4 * half + 3] = v.w;
  }
}

/// A thread holds one slot of 4 rows times 8 tokens.
template <class Block>
__global__ void __launch_bounds__(kTileThreads) a8_tile_kernel(const A8Product p) {
  MUSAIC_LAUNCH_BOUNDS(kTileThreads);
  MUSAIC_SHARED(A8Tile<Block>, tile);
  constexpr int kRows = 4, kTokens = 8;
  const GgmlMulMatArgs& a = p.args;
  const int thread = static_cast<int>(threadIdx.x), slot = thread % kSlots, group = thread / kSlots,
            tile_row = group % (kTile / kRows) * kRows, tile_token = group / (kTile / kRows) * kTokens;
  const std::int64_t row_tiles = (a.rows + kTile - 1) / kTile,
                     items = row_tiles * ((a.num_tokens + kTile - 1) / kTile);
  const bool aligned = reinterpret_cast<std::uintptr_t>(a.weight) % Block::kBestAlign == 0;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t first_row = item % row_tiles * kTile, first_token = item / row_tiles * kTile;
    float slots[kRows][kTokens], total[kRows];  // lane s has the totals of token s
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      total[r] = 0.0f;
#pragma unroll
      for (int t = 0; t < kTokens; ++t) slots[r][t] = 0.0f;
    }
    for (std::int64_t first = 0; first < p.blocks; first += kSlots) {
      sync_shared();  // the blocks before have been read
      if (aligned)
        load_weights<Block, Block::kBestAlign>(p, first_row, first, tile);
      else
        load_weights<Block, 1>(p, first_row, first, tile);
      load_activations(p, first_token, first, tile);
      sync_shared();
      std::uint32_t w[kRows][8];
      Factors<Block> f[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        load_block(tile.weights, tile_row + r, slot, w[r]);
        f[r] = tile.factors[tile_row + r][slot];
      }
#pragma unroll
      for (int t = 0; t < kTokens; ++t) {
        std::uint32_t x[8];
        load_block(tile.activations, tile_token + t, slot, x);
        const float d = tile.d[tile_token + t][slot];
        const std::int32_t sum = tile.sum[tile_token + t][slot];
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          std::int32_t low = 0, high = 0;
#pragma unroll
          for (int q = 0; q < 4; ++q) {
            low = dot4(w[r][q], x[q], low);
            high = dot4(w[r][q + 4], x[q + 4], high);
          }
          // A block beyond the row's end adds zeros, which changes no slot: none is ever -0.
          slots[r][t] = a8_add<Block>(slots[r][t], f[r].d, f[r].m, d,
                                      f[r].scale[0] * low + f[r].scale[1] * high, f[r].minimum * sum);
        }
      }
      const std::int64_t done = first + kSlots;
      if (done % kA8Segment == 0 || done >= p.blocks) {
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          float part = 0.0f;
#pragma unroll
          for (int t = 0; t < kTokens; ++t) {
            float s = slots[r][t];
            for (int by = 1; by < kSlots; by *= 2) s += exchange_xor(s, by);
            part = slot == t ? s : part;
            slots[r][t] = 0.0f;
          }
          total[r] = done <= kA8Segment ? part : total[r] + part;
        }
      }
    }
    const std::int64_t token = first_token + tile_token + slot;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const std::int64_t row = first_row + tile_row + r;
      if (row < a.rows && token < a.num_tokens) store_element(a, token, row, total[r]);
    }
  }
}

// A compiler has dropped template kernels that only a launch instantiates.
#define MUSAIC_A8_KERNELS(Block)                                                    \
  template __global__ void a8_vector_kernel<Block, 1>(const A8Product);             \
  template __global__ void a8_vector_kernel<Block, kVectorTokens>(const A8Product); \
  template __global__ void a8_tile_kernel<Block>(const A8Product);
MUSAIC_A8_KERNELS(BlockQ4_0)
MUSAIC_A8_KERNELS(BlockQ4_1)
MUSAIC_A8_KERNELS(BlockQ5_0)
MUSAIC_A8_KERNELS(BlockQ5_1)
MUSAIC_A8_KERNELS(BlockQ8_0)
MUSAIC_A8_KERNELS(BlockQ4_K)
MUSAIC_A8_KERNELS(BlockQ5_K)
MUSAIC_A8_KERNELS(BlockQ6_K)
#undef MUSAIC_A8_KERNELS

template <class Block>
void launch_product(const A8Product& p, Stream stream) {
  const GgmlMulMatArgs& a = p.args;
  const std::int64_t groups = (a.rows + kVectorRows - 1) / kVectorRows;
  if (a.num_tokens == 1) {
    MUSAIC_LAUNCH((a8_vector_kernel<Block, 1>), blocks_for(groups, 1), kVectorThreads, 0, stream, p);
  } else if (a.num_tokens <= kMostVectorTokens) {
    const std::int64_t token_groups = (a.num_tokens + kVectorTokens - 1) / kVectorTokens;
    MUSAIC_LAUNCH((a8_vector_kernel<Block, kVectorTokens>), blocks_for(groups * token_groups, 1),
                  kVectorThreads, 0, stream, p);
  } else {
    const std::int64_t tiles = (a.rows + kTile - 1) / kTile * ((a.num_tokens + kTile - 1) / kTile);
    MUSAIC_LAUNCH(a8_tile_kernel<Block>, blocks_for(tiles, 1), kTileThreads, 0, stream, p);
  }
}

void block_product(const GgmlMulMatArgs& a, Stream stream) {
  A8Product p{a, a8_blocks(a.layout, a.k), 0};
  p.token_bytes = a8_row_blocks(p.blocks) * kA8BlockBytes;
  if (p.blocks > 0)
    MUSAIC_LAUNCH(a8_quantize_kernel, blocks_for(4 * p.blocks * a.num_tokens, kQuantizeThreads),
                  kQuantizeThreads, 0, stream, p);
  switch (a.layout.type) {
    case GgmlType::kQ4_0:
      return launch_product<BlockQ4_0>(p, stream);
    case GgmlType::kQ4_1:
      return launch_product<BlockQ4_1>(p, stream);
    case GgmlType::kQ5_0:
      return launch_product<BlockQ5_0>(p, stream);
    case GgmlType::kQ5_1:
      return launch_product<BlockQ5_1>(p, stream);
    case GgmlType::kQ8_0:
      return launch_product<BlockQ8_0>(p, stream);
    case GgmlType::kQ4_K:
      return launch_product<BlockQ4_K>(p, stream);
    case GgmlType::kQ5_K:
      return launch_product<BlockQ5_K>(p, stream);
    case GgmlType::kQ6_K:
      return launch_product<BlockQ6_K>(p, stream);
    case GgmlType::kF32:
    case GgmlType::kF16:
    case GgmlType::kBF16:
      return;
  }
}

}  // namespace

/// Weights of plain numbers W: a row of the program is a weight row and some tokens, which find it in the cache.
template <class W>
struct PlainProduct {
  GgmlMulMatArgs a;
  std::int64_t tokens;  // of a row of the program

  template <class Group>
  MUSAIC_FN void operator()(const Group& group, std::int64_t i) const {
    const std::int64_t per_row = (a.num_tokens + tokens - 1) / tokens, row = i / per_row,
                       first = (i - row * per_row) * tokens,
                       end = first + tokens < a.num_tokens ? first + tokens : a.num_tokens;
    const W* w = reinterpret_cast<const W*>(a.weight + row * a.row_bytes);
    for (std::int64_t token = first; token < end; ++token) {
      const void* x = a.x_dtype == FloatKind::kF32
                          ? static_cast<const void*>(row_of<const float>(a.x, token))
                          : static_cast<const void*>(row_of<const std::uint16_t>(a.x, token));
      const float total =
          group.sum(a.k, [&](auto c, F32x8 acc) { return fma(c.load(w), load_kind(c, x, a.x_dtype), acc); });
      group.each(1, [&](auto) { store_element(a, token, row, total); });
    }
  }
};

template <class W>
void plain_product(const GgmlMulMatArgs& a, Stream stream) {
  const PlainProduct<W> program{a, a.num_tokens < 8 ? 1 : 8};
  launch_rows(stream, a.rows * ((a.num_tokens + program.tokens - 1) / program.tokens), a.k, program);
}

void ggml_mul_mat_a8(const GgmlMulMatArgs& a, Stream stream) {
  if (!is_plain(a.layout)) return block_product(a, stream);
  if (a.layout.type == GgmlType::kF32) return plain_product<float>(a, stream);
  if (a.layout.type == GgmlType::kF16) return plain_product<Half>(a, stream);
  plain_product<BFloat16>(a, stream);
}

void ggml_mul_mat_vec_a8(const GgmlMulMatArgs& a, Stream stream) { ggml_mul_mat_a8(a, stream); }

}  // namespace musaic::MUSAIC_TARGET
