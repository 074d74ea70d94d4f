// The first k entries of a row in the total order: value descending, then index ascending.
#pragma once

#include "device/device.h"

namespace musaic::MUSAIC_TARGET {

/// Descending; in place.
inline void sort_descending(std::uint64_t* a, std::int64_t n) {
  if (n <= 64) {
    for (std::int64_t i = 1; i < n; ++i) {
      const std::uint64_t v = a[i];
      std::int64_t j = i;
      for (; j > 0 && a[j - 1] < v; --j) a[j] = a[j - 1];
      a[j] = v;
    }
    return;
  }
  // A heap with the smallest at the top.
  const auto sink = [&](std::int64_t i, std::int64_t size) {
    const std::uint64_t v = a[i];
    for (std::int64_t child = 2 * i + 1; child < size; child = 2 * i + 1) {
      if (child + 1 < size && a[child + 1] < a[child]) ++child;
      if (!(a[child] < v)) break;
      a[i] = a[child];
      i = child;
    }
    a[i] = v;
  };
  for (std::int64_t i = n / 2; i-- > 0;) sink(i, n);
  for (std::int64_t last = n - 1; last > 0; --last) {
    const std::uint64_t smallest = a[0];
    a[0] = a[last];
    a[last] = smallest;
    sink(0, last);
  }
}

/// Moves the k largest of n distinct numbers to the front.
inline void select_largest(std::uint64_t* a, std::int64_t n, std::int64_t k) {
  std::int64_t begin = 0, end = n;
  std::uint32_t random = 0x9e3779b9u;  // pivots that no row is written against by accident
  while (k > begin && k < end) {
    random = random * 1664525u + 1013904223u;
    const std::uint64_t pivot = a[begin + static_cast<std::int64_t>(random >> 8) % (end - begin)];
    std::int64_t i = begin, j = end - 1;
    while (i <= j) {
      while (a[i] > pivot) ++i;
      while (a[j] < pivot) --j;
      if (i > j) break;
      const std::uint64_t t = a[i];
      a[i++] = a[j];
      a[j--] = t;
    }
    if (k <= j)
      end = j + 1;
    else if (k >= i)
      begin = i;
    else
      return;
  }
}

/// Collects entries and keeps the first k of them in the order, k <= Capacity / 4.
template <std::int64_t Capacity>
class Best {
 public:
  void clear(std::int64_t k) {
    k_ = k;
    count_ = 0;
  }

  /// Adds the lanes of `wanted`, of which lane 0 has index `first`, later than all before. Returns the least
  /// value that is still worth adding: `bound` or more.
  float add(Mask8 wanted, F32x8 x, std::int64_t first, float bound) {
    for (int j = 0; j < 8; ++j)
      if (wanted[j] != 0)
        keys_[count_++] =
            (std::uint64_t{order_key(x[j])} << 32) | (0xffffffffu - static_cast<std::uint32_t>(first + j));
    if (count_ + 8 <= Capacity) return bound;
    select_largest(keys_, count_, k_);
    count_ = k_;
    std::uint64_t last = keys_[0];
    for (std::int64_t i = 1; i < k_; ++i) last = keys_[i] < last ? keys_[i] : last;
    return value_of_key(static_cast<std::uint32_t>(last >> 32) + 1);
  }

  /// Sorts; returns how many there are, at most k.
  std::int64_t sorted() {
    if (count_ > k_) {
      select_largest(keys_, count_, k_);
      count_ = k_;
    }
    sort_descending(keys_, count_);
    return count_;
  }

  float value(std::int64_t i) const { return value_of_key(static_cast<std::uint32_t>(keys_[i] >> 32)); }
  std::int64_t index(std::int64_t i) const {
    return static_cast<std::int64_t>(0xffffffffu - static_cast<std::uint32_t>(keys_[i]));
  }
  std::uint64_t* weights() { return keys_ + Capacity / 4; }

  /// Of the first n entries, in index order, the index of the first whose inclusive prefix of weights exceeds
  /// `point`, which is below their sum.
  std::int64_t at(std::int64_t n, std::uint64_t point) {
    std::uint64_t* order = keys_ + Capacity / 2;
    for (std::int64_t i = 0; i < n; ++i) order[i] = (keys_[i] << 32) | static_cast<std::uint64_t>(i);
    sort_descending(order, n);
    for (std::int64_t i = 0; i + 1 < n; ++i) {
      const auto entry = static_cast<std::int64_t>(order[i] & 0xffffffffu);
      const std::uint64_t w = weights()[entry];
      if (point < w) return index(entry);
      point -= w;
    }
    return index(static_cast<std::int64_t>(order[n - 1] & 0xffffffffu));
  }

 private:
  std::uint64_t keys_[Capacity];
  std::int64_t k_ = 0, count_ = 0;
};

/// A number that at least k of the 8 n given ones reach, close to the k-th largest; `lowest` if there are
/// fewer.
inline float lower_bound_of_largest(const F32x8* values, std::int64_t n, std::int64_t k, float max,
                                    float lowest) {
  if (8 * n < k) return lowest;
  std::uint32_t low = order_key(lowest), high = order_key(max);
  while (low < high) {
    const std::uint32_t middle = low + (high - low + 1) / 2;
    const F32x8 t = all<F32x8>(value_of_key(middle));
    I32x8 counts{};
    for (std::int64_t i = 0; i < n; ++i) counts -= values[i] >= t;
    std::int64_t count = 0;
    for (int j = 0; j < 8; ++j) count += counts[j];
    if (count < k) {
      high = middle - 1;
    } else {
      low = middle;
      if (count <= k + k / 8) break;
    }
  }
  return value_of_key(low);
}

}  // namespace musaic::MUSAIC_TARGET
