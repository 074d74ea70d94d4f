// The group of the CPU: one thread with vectors of eight lanes.
#pragma once

#include "device/device.h"

namespace musaic::MUSAIC_TARGET {

class RowGroup {
 public:
  template <class F>
  MUSAIC_FN void each(std::int64_t n, F f) const {
    std::int64_t i = 0;
    for (; i + 8 <= n; i += 8) f(FullChunk{i});
    if (i < n) f(TailChunk{i, static_cast<int>(n - i)});
  }

  template <class F>
  MUSAIC_FN void each_of(std::int64_t count, std::int64_t n, F f) const {
    for (std::int64_t j = 0; j < count; ++j) each(n, [&](auto c) { f(j, c); });
  }

  MUSAIC_FN void sync() const {}

  template <class F>
  MUSAIC_FN float sum(std::int64_t n, F f) {
    const std::int64_t vectors = sum_slots(n) / 8;
    float total = 0.0f;
    for (std::int64_t segment = 0; segment < n; segment += kSumSegment) {
      const std::int64_t end = segment + kSumSegment < n ? segment + kSumSegment : n;
      const std::int64_t used = min64(vectors, (end - segment + 7) / 8);
      // Whole groups of eight vectors, so that the tree below can take eight at a time.
      const std::int64_t cleared = (used + 7) / 8 * 8;
      for (std::int64_t j = 0; j < cleared; ++j) slots_[j] = F32x8{};
      std::int64_t i = segment;
      for (; i + 8 * vectors <= end; i += 8 * vectors)
        for (std::int64_t j = 0; j < vectors; ++j) slots_[j] = f(FullChunk{i + 8 * j}, slots_[j]);
      std::int64_t j = 0;
      for (; i + 8 <= end; i += 8, ++j) slots_[j] = f(FullChunk{i}, slots_[j]);
      if (i < end) {
        const TailChunk tail{i, static_cast<int>(end - i)};
        slots_[j] = tail.keep(f(tail, slots_[j]), slots_[j]);
      }
      const float part = tree(cleared);
      total = segment == 0 ? part : total + part;
    }
    return total;
  }

  /// max over chunks of f(c), lane-wise with `select(a < b, b, a)`; `lowest` where a lane is absent or n = 0.
  /// The caller maps values to keys in which NaN and the zeros have the place that it wants.
  template <class F>
  MUSAIC_FN float max(std::int64_t n, float lowest, F f) const {
    F32x8 m = splat(F32x8{}, lowest);
    each(n, [&](auto c) {
      const F32x8 v = c.keep(f(c), splat(F32x8{}, lowest));
      m = select(m < v, v, m);
    });
    float r = m[0];
    for (int i = 1; i < 8; ++i) r = r < m[i] ? m[i] : r;
    return r;
  }

 private:
  static MUSAIC_FN std::int64_t min64(std::int64_t a, std::int64_t b) { return a < b ? a : b; }

  /// Tree of adjacent pairs over `vectors` (a multiple of 8, at most 128) slots vectors.
  MUSAIC_FN float tree(std::int64_t vectors) const {
    F32x8 level2[16] = {};
    for (std::int64_t j = 0; j < vectors / 8; ++j) level2[j] = tree_sums8(slots_ + 8 * j);
    if (vectors <= 8) return tree_sum(level2[0]);
    if (vectors <= 64) return tree_sum(tree_sums8(level2));
    F32x8 level3[2] = {tree_sums8(level2), tree_sums8(level2 + 8)};
    return tree_sum(level3[0]) + tree_sum(level3[1]);
  }

  F32x8 slots_[128];
};

}  // namespace musaic::MUSAIC_TARGET
