// One block a row: each thread keeps the first of its largest, then the block agrees by the total order.
#pragma once

#include "backends/backend.h"
#include "device/device.h"
#include "ops/argmax/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kArgmaxThreads = 512;  // at most; any power of two of warps gives the same result

/// Value and index of a candidate; key 0 is none. Ties go to the lower index.
struct ArgmaxBest {
  std::uint32_t key;
  std::int64_t index;

  MUSAIC_FN void take(std::uint32_t other_key, std::int64_t other_index) {
    const bool wins = other_key > key || (other_key == key && other_index < index);
    key = wins ? other_key : key;
    index = wins ? other_index : index;
  }
};

/// Rises with x, as order_key(); a NaN is 0, below every number.
MUSAIC_FN std::uint32_t argmax_key(float x) { return x == x ? order_key(x) : 0u; }

/// The best of the 32 lanes, in all of them.
MUSAIC_FN void argmax_of_warp(ArgmaxBest& best) {
  for (int step = 1; step < 32; step *= 2) {
    const std::uint32_t key = exchange_xor(best.key, step);
    const std::int64_t index = exchange_xor(best.index, step);
    best.take(key, index);
  }
}

template <class T>
__global__ void __launch_bounds__(kArgmaxThreads) argmax_kernel(const ArgmaxArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kArgmaxThreads);
  MUSAIC_SHARED(std::uint32_t[kArgmaxThreads / 32], keys);
  MUSAIC_SHARED(std::int64_t[kArgmaxThreads / 32], places);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32,
            threads = static_cast<int>(blockDim.x);
  for (std::int64_t r = blockIdx.x; r < a.num_rows; r += gridDim.x) {
    const T* row = row_of<const T>(a.input, r);
    ArgmaxBest best{0, 0};
    std::int64_t i = 8 * std::int64_t{thread};
    for (; i + 8 <= a.size; i += 8 * threads) {
      const F32x8 x = load8(row + i);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const std::uint32_t key = argmax_key(x[j]);
        // Indices rise within a thread, so the first of equals stays.
        if (key > best.key) best = {key, i + j};
      }
    }
    for (; i < a.size; ++i) {
      const std::uint32_t key = argmax_key(load(row[i]));
      if (key > best.key) best = {key, i};
    }
    argmax_of_warp(best);
    sync_shared();  // the row before has been read
    if (lane == 0) {
      keys[warp] = best.key;
      places[warp] = best.index;
    }
    sync_shared();
    best = {keys[lane % (threads / 32)], places[lane % (threads / 32)]};
    argmax_of_warp(best);
    if (thread == 0) write_integer(a.out, r, best.key != 0 ? best.index : 0);
  }
}

}  // namespace

void argmax(const ArgmaxArgs& a, Stream stream) {
  constexpr std::int64_t kMostBlocks = 65535;
  const auto blocks = static_cast<unsigned>(a.num_rows < kMostBlocks ? a.num_rows : kMostBlocks);
  const unsigned threads = a.size <= 8192 ? 128 : kArgmaxThreads;
  if (a.dtype == FloatKind::kF32)
    MUSAIC_LAUNCH(argmax_kernel<float>, blocks, threads, 0, stream, a);
  else if (a.dtype == FloatKind::kF16)
    MUSAIC_LAUNCH(argmax_kernel<Half>, blocks, threads, 0, stream, a);
  else
    MUSAIC_LAUNCH(argmax_kernel<BFloat16>, blocks, threads, 0, stream, a);
}

}  // namespace musaic::MUSAIC_TARGET
