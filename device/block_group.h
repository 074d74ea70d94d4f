// The group of a GPU: 32 lanes or a block of 128, each lane the owner of eight consecutive elements. Lanes exchange by
// 32 (exchange_xor) and through shared memory (MUSAIC_SHARED, sync_shared), which the backend gives.
#pragma once

#include "device/device.h"

namespace musaic::MUSAIC_TARGET {

/// Threads of a block; one group of 128 lanes or four of 32.
inline constexpr int kBlockThreads = 128;
inline constexpr int kWarpLanes = 32;

/// Any group computes any row with the same bits; 32 lanes suit rows of up to 256 slots, 128 lanes longer
/// ones.
template <int kLanes>
class RowGroup {
  static_assert(kLanes == kWarpLanes || kLanes == kBlockThreads, "a row's slots fill one or four warps");

 public:
  template <class F>
  MUSAIC_FN void each(std::int64_t n, F f) const {
    over(8 * lane(), n, 8 * kLanes, f);
  }

  template <class F>
  MUSAIC_FN void each_of(std::int64_t count, std::int64_t n, F f) const {
    const std::int64_t per = (n + 7) / 8;
    for (std::int64_t c = lane(); c < count * per; c += kLanes) {
      const std::int64_t j = c / per;
      chunk(8 * (c - j * per), n, [&](auto part) { f(j, part); });
    }
  }

  MUSAIC_FN void sync() const {
    if constexpr (kLanes == kWarpLanes)
      sync_warp();
    else
      sync_block();
  }

  template <class F>
  MUSAIC_FN float sum(std::int64_t n, F f) const {
    const int warps =
        static_cast<int>(sum_slots(n)) / (8 * kWarpLanes);  // whose 256 slots hold the row: 1 or 4
    float total = 0.0f;
    for (std::int64_t segment = 0; segment < n; segment += kSumSegment) {
      const std::int64_t end = segment + kSumSegment < n ? segment + kSumSegment : n;
      const float part = segment_sum(segment, end, warps, f);
      total = segment == 0 ? part : total + part;
    }
    return total;
  }

  /// max over chunks of f(c), lane-wise with `select(a < b, b, a)`; `lowest` where a lane is absent or n = 0.
  template <class F>
  MUSAIC_FN float max(std::int64_t n, float lowest, F f) const {
    F32x8 m = splat(F32x8{}, lowest);
    each(n, [&](auto c) {
      const F32x8 v = c.keep(f(c), splat(F32x8{}, lowest));
      m = select(m < v, v, m);
    });
    float r = m[0];
#pragma unroll
    for (int i = 1; i < 8; ++i) r = r < m[i] ? m[i] : r;
#pragma unroll
    for (int step = 1; step < kWarpLanes; step *= 2) {
      const float other = exchange_xor(r, step);
      r = r < other ? other : r;
    }
    if constexpr (kLanes == kBlockThreads) {
      const WarpValues v = exchange(r);
      r = v.of[0];
#pragma unroll
      for (int i = 1; i < 4; ++i) r = r < v.of[i] ? v.of[i] : r;
    }
    return r;
  }

 private:
  struct WarpValues {
    float of[4];
  };

  static MUSAIC_FN int lane() { return static_cast<int>(threadIdx.x) % kLanes; }

  /// f over the chunks at i, i + step, ... below n; the full ones in a loop of their own.
  template <class F>
  static MUSAIC_FN void over(std::int64_t i, std::int64_t n, int step, F f) {
    for (; i + 8 <= n; i += step) f(FullChunk{i});
    if (i < n) f(TailChunk{i, static_cast<int>(n - i)});
  }

  template <class F>
  static MUSAIC_FN void chunk(std::int64_t begin, std::int64_t n, F f) {
    if (begin + 8 <= n)
      f(FullChunk{begin});
    else
      f(TailChunk{begin, static_cast<int>(n - begin)});
  }

  template <class F>
  MUSAIC_FN float segment_sum(std::int64_t begin, std::int64_t end, int warps, F f) const {
    if constexpr (kLanes == kWarpLanes) {
      WarpValues v = {};
#pragma unroll
      for (int w = 0; w < 4; ++w)
        if (w < warps) v.of[w] = warp_sum(begin, end, w, warps, f);
      return warps == 1 ? v.of[0] : (v.of[0] + v.of[1]) + (v.of[2] + v.of[3]);
    } else {
      const int warp = lane() / kWarpLanes;
      // The warps beyond the row's slots exchange zeros: control flow is uniform over the block.
      const WarpValues v = exchange(warp_sum(warp < warps ? begin : end, end, warp, warps, f));
      return warps == 1 ? v.of[0] : (v.of[0] + v.of[1]) + (v.of[2] + v.of[3]);
    }
  }

  /// The tree over the 256 slots that warp w of the row's 1 or 4 owns.
  template <class F>
  static MUSAIC_FN float warp_sum(std::int64_t begin, std::int64_t end, int w, int warps, F f) {
    const int slot_lane = w * kWarpLanes + lane() % kWarpLanes;
    F32x8 slots = splat(F32x8{}, 0.0f);
    over(begin + 8 * slot_lane, end, 8 * kWarpLanes * warps,
         [&](auto c) { slots = c.keep(f(c, slots), slots); });
    float s = tree_sum(slots);
#pragma unroll
    for (int step = 1; step < kWarpLanes; step *= 2) s += exchange_xor(s, step);
    return s;
  }

  /// One value of each warp of the block, for all.
  MUSAIC_FN WarpValues exchange(float value) const {
    MUSAIC_SHARED(WarpValues, values);
    sync_shared();  // what an earlier exchange left has been read
    if (lane() % kWarpLanes == 0) values.of[lane() / kWarpLanes] = value;
    sync_shared();
    return values;
  }
};

}  // namespace musaic::MUSAIC_TARGET
