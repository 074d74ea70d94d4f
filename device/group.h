// Row programs: how elementwise and row-reduction operators are written once for every backend.
//
// A program is called as program(group, row). The group splits a row of n elements into chunks of eight
// consecutive ones, each owned by one lane whatever the dtype and alignment. A chunk loads and stores F32x8;
// in the last, ragged chunk absent lanes load as +0 and are not stored.
//
//   group.each(n, [&](auto c) { c.store(y, c.load(x) * c.load(w)); });
//   group.each_of(count, n, [&](std::int64_t j, auto c) { ... });  // each over rows j = 0 ... count - 1 of n
//   group.sync();  // what lanes read and wrote before is done before any lane goes on
//   float s = group.sum(n, [&](auto c, F32x8 acc) { const F32x8 v = c.load(x); return fma(v, v, acc); });
//
// The sum is the library's one definition of a float sum over n elements. W = 256 slots for n <= 2048, 1024
// above; slot s starts at +0 and takes the elements i = s (mod W) in rising order, one rounding each; then
// the tree of adjacent pairs (s, s xor 1), (s, s xor 2), ... A row longer than 8192 is cut into segments of
// 8192, each summed so, and the segment sums are added left to right. Slots that got no element hold +0,
// which changes no sum, so a tree may stop at the first power of two that covers the filled slots.
#pragma once

#include "device/number.h"

namespace musaic {

inline constexpr std::int64_t kSumSegment = 8192;
constexpr std::int64_t sum_slots(std::int64_t n) { return n <= 2048 ? 256 : 1024; }

namespace MUSAIC_TARGET {

/// A secondary argument whose storage type is known at run time only (a weight of another dtype than the
/// row's).
template <class Chunk>
MUSAIC_FN F32x8 load_kind(const Chunk& c, const void* row, FloatKind kind) {
  if (kind == FloatKind::kBF16) return c.load(static_cast<const BFloat16*>(row));
  if (kind == FloatKind::kF16) return c.load(static_cast<const Half*>(row));
  return c.load(static_cast<const float*>(row));
}

/// Eight elements that all exist.
struct FullChunk {
  std::int64_t begin;  // index of lane 0 in the row

  template <class T>
  MUSAIC_FN F32x8 load(const T* row) const {
    return load8(row + begin);
  }
  template <class T>
  MUSAIC_FN void store(T* row, F32x8 v) const {
    store8(row + begin, canonical(v));
  }
  /// For rows of pairs, as this chunk's lanes count them: x of lane i is row[2 (begin + i)], y the element
  /// after it.
  template <class T>
  MUSAIC_FN void load_pairs(const T* row, F32x8& x, F32x8& y) const {
    const F32x8 a = load8(row + 2 * begin), b = load8(row + 2 * begin + 8);
    x = even_lanes(a, b);
    y = odd_lanes(a, b);
  }
  template <class T>
  MUSAIC_FN void store_pairs(T* row, F32x8 x, F32x8 y) const {
    x = canonical(x);
    y = canonical(y);
    store8(row + 2 * begin, interleave_low(x, y));
    store8(row + 2 * begin + 8, interleave_high(x, y));
  }
  /// v in lanes that exist, otherwise `absent`.
  MUSAIC_FN F32x8 keep(F32x8 v, F32x8 absent) const {
    (void)absent;
    return v;
  }
};

/// The last count < 8 elements of a row.
struct TailChunk {
  std::int64_t begin;
  int count;

  template <class T>
  MUSAIC_FN F32x8 load(const T* row) const {
    float v[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int i = 0; i < count; ++i) v[i] = MUSAIC_TARGET::load(row[begin + i]);
    return load8(v);
  }
  template <class T>
  MUSAIC_FN void store(T* row, F32x8 v) const {
    float w[8];
    store8(w, v);
    for (int i = 0; i < count; ++i) MUSAIC_TARGET::store(row + begin + i, w[i]);
  }
  template <class T>
  MUSAIC_FN void load_pairs(const T* row, F32x8& x, F32x8& y) const {
    float v[8] = {0, 0, 0, 0, 0, 0, 0, 0}, w[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (int i = 0; i < count; ++i) {
      v[i] = MUSAIC_TARGET::load(row[2 * (begin + i)]);
      w[i] = MUSAIC_TARGET::load(row[2 * (begin + i) + 1]);
    }
    x = load8(v);
    y = load8(w);
  }
  template <class T>
  MUSAIC_FN void store_pairs(T* row, F32x8 x, F32x8 y) const {
    float v[8], w[8];
    store8(v, x);
    store8(w, y);
    for (int i = 0; i < count; ++i) {
      MUSAIC_TARGET::store(row + 2 * (begin + i), v[i]);
      MUSAIC_TARGET::store(row + 2 * (begin + i) + 1, w[i]);
    }
  }
  MUSAIC_FN F32x8 keep(F32x8 v, F32x8 absent) const { return select(lane_index() < count, v, absent); }
};

}  // namespace MUSAIC_TARGET
}  // namespace musaic
