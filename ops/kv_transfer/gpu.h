// A warp copies a piece at a time: words as wide as both addresses allow, single bytes before and after them.
#pragma once

#include "backends/backend.h"
#include "device/device.h"
#include "ops/kv_transfer/args.h"
#include "ops/kv_transfer/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kKvTransferThreads = 1024;
/// Indices that a host list hands over with one launch: they travel in the kernel's parameters, of which every target
/// has 4 KB.
inline constexpr int kKvTransferListed = 160;

struct alignas(16) KvTransferWord {
  std::uint64_t low, high;
};

/// Where the kernel finds token i of the list.
struct KvTransferOnDevice {
  MUSAIC_FN std::int64_t from(const KvTransferArgs& a, std::int64_t i) const {
    return kv_transfer_index(a.src, i);
  }
  MUSAIC_FN std::int64_t to(const KvTransferArgs& a, std::int64_t i) const {
    return kv_transfer_index(a.dst, i);
  }
  std::int64_t first;  // of the caller's list
};
struct KvTransferListed {
  std::int64_t src[kKvTransferListed], dst[kKvTransferListed];
  std::int64_t first;
  MUSAIC_FN std::int64_t from(const KvTransferArgs&, std::int64_t i) const { return src[i]; }
  MUSAIC_FN std::int64_t to(const KvTransferArgs&, std::int64_t i) const { return dst[i]; }
};

template <class Word>
MUSAIC_FN void kv_transfer_words(char* to, const char* from, std::int64_t count, int lane) {
  Word* t = static_cast<Word*>(static_cast<void*>(to));
  const Word* f = static_cast<const Word*>(static_cast<const void*>(from));
  std::int64_t i = lane;
  for (; i + 96 < count; i += 128) {  // four loads under way
    const Word w0 = f[i], w1 = f[i + 32], w2 = f[i + 64], w3 = f[i + 96];
    t[i] = w0;
    t[i + 32] = w1;
    t[i + 64] = w2;
    t[i + 96] = w3;
  }
  for (; i < count; i += 32) t[i] = f[i];
}

MUSAIC_FN void kv_transfer_copy(char* to, const char* from, std::int64_t bytes, int lane) {
  const auto t = reinterpret_cast<std::uintptr_t>(to), f = reinterpret_cast<std::uintptr_t>(from);
  const std::uintptr_t apart = t ^ f;
  const int width = apart % 16 == 0 ? 16 : apart % 8 == 0 ? 8 : apart % 4 == 0 ? 4 : 1;
  const auto misaligned = static_cast<std::int64_t>((0 - t) & static_cast<std::uintptr_t>(width - 1));
  const std::int64_t head = misaligned < bytes ? misaligned : bytes, words = (bytes - head) / width,
                     done = head + words * width;
  for (std::int64_t i = lane; i < head; i += 32) to[i] = from[i];
  if (width == 16)
    kv_transfer_words<KvTransferWord>(to + head, from + head, words, lane);
  else if (width == 8)
    kv_transfer_words<std::uint64_t>(to + head, from + head, words, lane);
  else if (width == 4)
    kv_transfer_words<std::uint32_t>(to + head, from + head, words, lane);
  else
    kv_transfer_words<char>(to + head, from + head, words, lane);
  for (std::int64_t i = done + lane; i < bytes; i += 32) to[i] = from[i];
}

template <class Indices>
__global__ void __launch_bounds__(kKvTransferThreads)
    kv_transfer_kernel(const KvTransferArgs a, const Indices indices) {
  MUSAIC_LAUNCH_BOUNDS(kKvTransferThreads);
  const int lane = static_cast<int>(threadIdx.x) % 32, warps = static_cast<int>(blockDim.x) / 32;
  const std::int64_t per_token = std::int64_t{a.num_parts} * a.num_layers * a.num_heads,
                     pieces = a.num_tokens * per_token, step = std::int64_t{gridDim.x} * warps;
  for (std::int64_t p = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32; p < pieces; p += step) {
    const std::int64_t i = p / per_token, piece = p - i * per_token, from = indices.from(a, i),
                       to = indices.to(a, i);
    if (kv_transfer_check(a, indices.first + i, from, to, lane == 0 && piece == 0))
      kv_transfer_copy(kv_transfer_piece(a, a.dst, to, piece), kv_transfer_piece(a, a.src, from, piece),
                       a.piece_bytes, lane);
  }
}

// A compiler has dropped template kernels that only a launch instantiates.
template __global__ void kv_transfer_kernel<KvTransferOnDevice>(const KvTransferArgs,
                                                                const KvTransferOnDevice);
template __global__ void kv_transfer_kernel<KvTransferListed>(const KvTransferArgs, const KvTransferListed);

template <class Indices>
void launch_kv_transfer(const KvTransferArgs& a, const Indices& indices, Stream stream) {
  const std::int64_t pieces = a.num_tokens * a.num_parts * a.num_layers * a.num_heads,
                     wanted = (pieces + a.warps_per_block - 1) / a.warps_per_block,
                     blocks = wanted < a.block_quota ? wanted : a.block_quota;
  MUSAIC_LAUNCH(kv_transfer_kernel<Indices>, static_cast<unsigned>(blocks),
                static_cast<unsigned>(32 * a.warps_per_block), 0, stream, a, indices);
}

inline void kv_transfer(const KvTransferArgs& a, Stream stream) {
  if (!a.indices_on_host) return launch_kv_transfer(a, KvTransferOnDevice{0}, stream);
  const auto index = [](const KvTransferPool& pool, std::int64_t i) {
    return pool.indices_are_64_bit ? static_cast<const std::int64_t*>(pool.indices)[i]
                                   : std::int64_t{static_cast<const std::int32_t*>(pool.indices)[i]};
  };
  for (std::int64_t first = 0; first < a.num_tokens; first += kKvTransferListed) {
    KvTransferListed listed = {};
    listed.first = first;
    KvTransferArgs part = a;
    part.num_tokens = a.num_tokens - first < kKvTransferListed ? a.num_tokens - first : kKvTransferListed;
    for (std::int64_t i = 0; i < part.num_tokens; ++i) {
      listed.src[i] = index(a.src, first + i);
      listed.dst[i] = index(a.dst, first + i);
    }
    launch_kv_transfer(part, listed, stream);
  }
}

}  // namespace

#define MUSAIC_KV_TRANSFER(name) \
  void name(const KvTransferArgs& a, Stream stream) { kv_transfer(a, stream); }
#include "ops/kv_transfer/names.inc"
#undef MUSAIC_KV_TRANSFER

}  // namespace musaic::MUSAIC_TARGET
