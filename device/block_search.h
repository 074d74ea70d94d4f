// Sums, selections and sorts by a block, for GPU forms that search rows. A block has a power of two of warps, 4 to 32,
// all of whose threads call each function; what a function leaves in shared memory may be read without a barrier of the
// caller's.
#pragma once

#include "device/device.h"

namespace musaic::MUSAIC_TARGET {

inline constexpr int kSearchThreads = 1024;  // at most
inline constexpr int kKeysOfThread = 2;      // that the block can hold, times its threads

/// What the block shares; within the 28 KB of the smallest target.
struct SearchShared {
  std::uint64_t keys[kKeysOfThread * kSearchThreads];
  std::uint32_t bins[1040];          // after the keys, so that both can be one array of 5136 bins
  std::uint64_t segments[512 + 32];  // by spread_16()
  std::uint64_t of_warp[kSearchThreads / 32];
  std::uint64_t chosen[8];
  std::uint32_t count, found;
};

MUSAIC_FN int search_threads() { return static_cast<int>(blockDim.x); }
MUSAIC_FN int search_warps() { return search_threads() / 32; }
MUSAIC_FN int search_lane() { return static_cast<int>(threadIdx.x) % 32; }
MUSAIC_FN int search_warp() { return static_cast<int>(threadIdx.x) / 32; }

// Where element i of an array lies whose lanes read 16, or 8, in a row: without the gaps they would wait for one bank.
MUSAIC_FN int spread_16(int i) { return i + i / 16; }
MUSAIC_FN int spread_8(int i) { return i + i / 8; }

template <class T>
MUSAIC_FN T warp_sum(T v) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) v += exchange_xor(v, step);
  return v;
}
/// Of the lanes up to this one.
template <class T>
MUSAIC_FN T warp_prefix(T v) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const T below = exchange_up(v, step);
    v += search_lane() >= step ? below : T{0};
  }
  return v;
}

/// v of every warp (lane 0's) folded by f, for all.
template <class F>
MUSAIC_FN std::uint64_t fold_warps(SearchShared& s, std::uint64_t v, F f) {
  sync_shared();  // what an earlier fold left has been read
  if (search_lane() == 0) s.of_warp[search_warp()] = v;
  sync_shared();
  v = s.of_warp[search_lane() & (search_warps() - 1)];
  for (int step = 1; step < search_warps(); step *= 2) v = f(v, exchange_xor(v, step));
  return v;
}
MUSAIC_FN std::uint64_t block_sum(SearchShared& s, std::uint64_t v) {
  return fold_warps(s, warp_sum(v), [](std::uint64_t a, std::uint64_t b) { return a + b; });
}
MUSAIC_FN std::uint64_t block_max(SearchShared& s, std::uint64_t v) {
  const auto larger_of = [](std::uint64_t a, std::uint64_t b) { return a > b ? a : b; };
#pragma unroll
  for (int step = 1; step < 32; step *= 2) v = larger_of(v, exchange_xor(v, step));
  return fold_warps(s, v, larger_of);
}
/// Of the threads up to this one.
MUSAIC_FN std::uint64_t block_prefix(SearchShared& s, std::uint64_t v) {
  v = warp_prefix(v);
  sync_shared();
  if (search_lane() == 31) s.of_warp[search_warp()] = v;
  sync_shared();
  const int lane = search_lane();
  const std::uint64_t warps = warp_prefix(lane < search_warps() ? s.of_warp[lane & (search_warps() - 1)] : 0);
  const std::uint64_t before = exchange_from(warps, search_warp() > 0 ? search_warp() - 1 : 0);
  return search_warp() > 0 ? v + before : v;
}

/// s.keys[n], ..., s.keys[size - 1] = 0, which sorts last.
MUSAIC_FN void pad_keys(SearchShared& s, int n, int size) {
  for (int i = n + static_cast<int>(threadIdx.x); i < size; i += search_threads()) s.keys[i] = 0;
}

/// Sorts n keys, n a power of two; the largest first.
MUSAIC_CALLED_FN void sort_keys(std::uint64_t* keys, int n) {
  for (int width = 2; width <= n; width *= 2)
    for (int step = width / 2; step > 0; step /= 2) {
      sync_shared();
      for (int p = static_cast<int>(threadIdx.x); p < n / 2; p += search_threads()) {
        const int i = 2 * p - (p & (step - 1));
        const std::uint64_t a = keys[i], b = keys[i + step];
        if ((a < b) == ((i & width) == 0)) {
          keys[i] = b;
          keys[i + step] = a;
        }
      }
    }
  sync_shared();
}

/// The k-th largest of the n distinct keys in s.keys, 1 <= k <= n.
MUSAIC_CALLED_FN std::uint64_t select_key(SearchShared& s, int n, int k) {
  const int thread = static_cast<int>(threadIdx.x);
  std::uint64_t prefix = 0;
  auto rank = static_cast<std::uint32_t>(k);
  for (int shift = 56; shift >= 0; shift -= 8) {
    sync_shared();
    for (int i = thread; i < 256 + 32; i += search_threads()) s.bins[i] = 0;
    sync_shared();
    for (int i = thread; i < n; i += search_threads()) {
      const std::uint64_t key = s.keys[i];
      if (shift == 56 || (key >> (shift + 8)) == prefix)
        atomicAdd(&s.bins[spread_8(static_cast<int>((key >> shift) & 255u))], 1u);
    }
    sync_shared();
    // Every warp looks for the digit: eight bins a lane, the largest first.
    const int first = 255 - 8 * search_lane();
    std::uint32_t sum = 0;
#pragma unroll
    for (int q = 0; q < 8; ++q) sum += s.bins[spread_8(first - q)];
    std::uint32_t above = warp_prefix(sum) - sum;
#pragma unroll
    for (int q = 0; q < 8; ++q) {
      const std::uint32_t bin = s.bins[spread_8(first - q)];
      if (search_warp() == 0 && above < rank && above + bin >= rank) {
        s.chosen[0] = static_cast<std::uint64_t>(first - q);
        s.chosen[1] = rank - above;
        s.chosen[2] = bin;
      }
      above += bin;
    }
    sync_shared();
    prefix = (prefix << 8) | s.chosen[0];
    rank = static_cast<std::uint32_t>(s.chosen[1]);
    // The least key with this prefix, if all of those are wanted.
    if (s.chosen[2] == rank) return prefix << shift;
  }
  return prefix;
}

/// Drops the keys below `least`.
MUSAIC_FN void drop_below(SearchShared& s, std::uint64_t least) {
  const auto n = static_cast<int>(s.count);
  std::uint64_t mine[kKeysOfThread];
#pragma unroll
  for (int q = 0; q < kKeysOfThread; ++q) {
    const int i = static_cast<int>(threadIdx.x) + q * search_threads();
    mine[q] = i < n ? s.keys[i] : 0;
  }
  sync_shared();
  if (threadIdx.x == 0) s.count = 0;
  sync_shared();
#pragma unroll
  for (int q = 0; q < kKeysOfThread; ++q)
    if (mine[q] != 0 && mine[q] >= least) s.keys[atomicAdd(&s.count, 1u)] = mine[q];
  sync_shared();
}

/// Drops all but the k largest of s.count keys; returns the least of those, or 0 if there are no more than k.
MUSAIC_CALLED_FN std::uint64_t keep_largest(SearchShared& s, int k) {
  const auto n = static_cast<int>(s.count);
  if (n <= k) return 0;  // the same for all threads
  const std::uint64_t least = select_key(s, n, k);
  drop_below(s, least);
  return least;
}

/// A lower bound of the k-th largest of the values of the first `warps` warps' threads, k <= 32 * warps.
MUSAIC_FN std::uint32_t bound_of_largest(SearchShared& s, std::uint32_t v, int k, int warps) {
  const int lane = search_lane();
#pragma unroll
  for (int width = 2; width <= 32; width *= 2)
#pragma unroll
    for (int step = width / 2; step > 0; step /= 2) {
      const std::uint32_t other = exchange_xor(v, step);
      const bool keep_larger = ((lane & width) == 0) == ((lane & step) == 0);
      v = (other > v) == keep_larger ? other : v;
    }
  std::uint32_t mine = exchange_from(v, (k + warps - 1) / warps - 1);
  mine = search_warp() < warps ? mine : ~std::uint32_t{0};
  return static_cast<std::uint32_t>(
      fold_warps(s, mine, [](std::uint64_t a, std::uint64_t b) { return a < b ? a : b; }));
}

/// Sums of weights floor(q * 2^40) for q in [0, 1], at most 4095 of them between calls of total(): additions
/// that round toward zero leave the 20 high and the 20 low bits in mantissas.
struct WeightSum {
  std::uint32_t high = 0, low = 0, count = 0;

  MUSAIC_FN void add(float q) {
    const float t = add_toward_zero(q, 8.0f);
    const float rest = q - (t - 8.0f);  // exact
    high += as_bits(t);
    low += as_bits(add_toward_zero(rest, 7.62939453e-6f));  // 2^-17
    ++count;
  }
  MUSAIC_FN void add_one() {
    high += 0x41000000u;
    low += 0x37000001u;
    ++count;
  }
  MUSAIC_FN std::uint64_t total() const {
    return (static_cast<std::uint64_t>(high - count * 0x41000000u) << 20) + (low - count * 0x37000000u);
  }
};

}  // namespace musaic::MUSAIC_TARGET
