// A row seen as vectors of eight with their indices, for operators that search rows.
#pragma once

#include "backends/cpu/group.h"

namespace musaic::MUSAIC_TARGET {

template <class T>
struct Entries {
  const T* row;
  std::int64_t size;
  float absent;  // what lanes past the end read

  /// f(index of lane 0, eight entries) over [begin, end).
  template <class F>
  MUSAIC_FN void each(std::int64_t begin, std::int64_t end, F f) const {
    std::int64_t i = begin;
    for (; i + 8 <= end; i += 8) f(i, FullChunk{i}.load(row));
    if (i < end) f(i, ragged(i, end));
  }

  /// The largest entry of [begin, end) in each of eight interleaved parts, at least `absent`; NaNs are
  /// skipped. Also f(entries) for every vector.
  template <class F>
  MUSAIC_FN F32x8 maxima(std::int64_t begin, std::int64_t end, F f) const {
    F32x8 m0 = all<F32x8>(absent), m1 = m0, m2 = m0, m3 = m0;
    std::int64_t i = begin;
    for (; i + 32 <= end; i += 32) {
      const F32x8 x0 = FullChunk{i}.load(row), x1 = FullChunk{i + 8}.load(row);
      const F32x8 x2 = FullChunk{i + 16}.load(row), x3 = FullChunk{i + 24}.load(row);
      m0 = larger(x0, m0);
      m1 = larger(x1, m1);
      m2 = larger(x2, m2);
      m3 = larger(x3, m3);
      f(x0);
      f(x1);
      f(x2);
      f(x3);
    }
    each(i, end, [&](std::int64_t, F32x8 x) {
      m0 = larger(x, m0);
      f(x);
    });
    return larger(larger(m0, m1), larger(m2, m3));
  }

  /// The first index of [begin, end) whose entry equals v; -1 if there is none.
  std::int64_t find(std::int64_t begin, std::int64_t end, float v) const {
    for (std::int64_t i = begin; i < end; i += 8) {
      const F32x8 x = i + 8 <= end ? FullChunk{i}.load(row) : ragged(i, end);
      if (!any(x == all<F32x8>(v))) continue;
      for (std::int64_t j = 0; j < 8 && i + j < end; ++j)
        if (x[j] == v) return i + j;
    }
    return -1;
  }

 private:
  MUSAIC_FN F32x8 ragged(std::int64_t i, std::int64_t end) const {
    const TailChunk tail{i, static_cast<int>(end - i)};
    return tail.keep(tail.load(row), all<F32x8>(absent));
  }
};

MUSAIC_FN float largest_lane(F32x8 v) {
  float m = v[0];
  for (int i = 1; i < 8; ++i) m = m < v[i] ? v[i] : m;
  return m;
}

MUSAIC_FN I32x8 indices8(std::int64_t first) {
  return lane_index() + splat(I32x8{}, static_cast<std::int32_t>(first));
}

}  // namespace musaic::MUSAIC_TARGET
