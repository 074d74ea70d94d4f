#include "backends/cpu/ggml_dot.h"
#include "backends/cpu/launch.h"
#include "ops/ggml_mul_mat/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

// A chunk of weight rows stays in the second-level cache while all tokens pass; a tile of tokens shares the
// unpacked weights.
constexpr std::int64_t kRowChunk = 64;
constexpr std::int64_t kTokenTile = 8;
// Weight bytes times tokens worth a second thread: some 2 us of work.
constexpr std::int64_t kBytesPerThread = 32768;

MUSAIC_FN void store_tile(const GgmlMulMatArgs& a, const float* tile, std::int64_t token, std::int64_t tokens,
                          std::int64_t row, std::int64_t rows) {
  for_float_kind(a.out_dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    for (std::int64_t t = 0; t < tokens; ++t) {
      T* y = row_of<T>(a.out, token + t) + row;
      RowGroup().each(rows, [&](auto c) { c.store(y, c.load(tile + t * kRowChunk)); });
    }
  });
}

void quantize_rows(const GgmlMulMatArgs& a, std::int64_t blocks, std::int64_t token_bytes) {
  for_float_kind(a.x_dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    auto body = [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t)
        a8_quantize(row_of<const T>(a.x, t), a.k, blocks, a.workspace + t * token_bytes);
    };
    cpu::parallel(a.num_tokens, 1 + 16384 / (a.k + 1), body);
  });
}

void block_product(const GgmlMulMatArgs& a) {
  const std::int64_t blocks = a8_blocks(a.layout, a.k);
  const std::int64_t token_bytes = a8_row_blocks(blocks) * kA8BlockBytes;
  if (blocks > 0) quantize_rows(a, blocks, token_bytes);
  for_block_type(a.layout.type, [&](auto* type) {
    using Block = std::remove_pointer_t<decltype(type)>;
    auto body = [&](std::int64_t begin, std::int64_t end) {
      alignas(32) float tile[kTokenTile * kRowChunk];
      for (std::int64_t r = begin; r < end; r += kRowChunk) {
        const std::int64_t rows = end - r < kRowChunk ? end - r : kRowChunk;
        for (std::int64_t t = 0; t < a.num_tokens; t += kTokenTile) {
          const std::int64_t tokens = a.num_tokens - t < kTokenTile ? a.num_tokens - t : kTokenTile;
          if (blocks == 0)
            for (float& v : tile) v = 0.0f;
          else
            a8_tile<Block>(a.weight + r * a.row_bytes, a.row_bytes, rows, a.workspace + t * token_bytes,
                           token_bytes, tokens, blocks, tile, kRowChunk);
          store_tile(a, tile, t, tokens, r, rows);
        }
      }
    };
    cpu::parallel(a.rows, 1 + kBytesPerThread / (a.row_bytes * a.num_tokens + 1), body);
  });
}

template <class W, class X>
void plain_product(const GgmlMulMatArgs& a) {
  auto body = [&](std::int64_t begin, std::int64_t end) {
    RowGroup group;
    float tile[kRowChunk];
    for (std::int64_t r = begin; r < end; r += kRowChunk) {
      const std::int64_t rows = end - r < kRowChunk ? end - r : kRowChunk;
      for (std::int64_t t = 0; t < a.num_tokens; ++t) {
        const X* x = row_of<const X>(a.x, t);
        for (std::int64_t i = 0; i < rows; ++i) {
          const W* w = reinterpret_cast<const W*>(a.weight + (r + i) * a.row_bytes);
          tile[i] = group.sum(a.k, [&](auto c, F32x8 acc) { return fma(c.load(w), c.load(x), acc); });
        }
        store_tile(a, tile, t, 1, r, rows);
      }
    }
  };
  cpu::parallel(a.rows, 1 + kBytesPerThread / (a.row_bytes * a.num_tokens + 1), body);
}

void product(const GgmlMulMatArgs& a) {
  if (!is_plain(a.layout)) return block_product(a);
  for_float_kind(a.x_dtype, [&](auto* type) {
    using X = std::remove_pointer_t<decltype(type)>;
    if (a.layout.type == GgmlType::kF32) return plain_product<float, X>(a);
    if (a.layout.type == GgmlType::kF16) return plain_product<Half, X>(a);
    plain_product<BFloat16, X>(a);
  });
}

}  // namespace

void ggml_mul_mat_a8(const GgmlMulMatArgs& args, Stream) { product(args); }
void ggml_mul_mat_vec_a8(const GgmlMulMatArgs& args, Stream) { product(args); }

}  // namespace musaic::MUSAIC_TARGET
