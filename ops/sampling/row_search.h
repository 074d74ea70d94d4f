// A row seen by a block of threads: tiles of it, sums of its weights, and the entries where a count or a mass is
// reached. For GPU forms.
#pragma once

#include "device/block_search.h"
#include "ops/sampling/core.h"

namespace musaic::MUSAIC_TARGET {

inline constexpr int kTileVectors = 4;                      // of eight entries, which a thread reads at once
inline constexpr int kTileEntries = 32 * 8 * kTileVectors;  // of a warp
inline constexpr int kSearchSegments = 512;                 // at most; a warp's tile or a few

/// An entry's place in the total order, larger is earlier: value descending, then index ascending.
MUSAIC_FN std::uint64_t place_key(float x, int index) {
  return (std::uint64_t{order_key(x)} << 32) | (0xffffffffu - static_cast<std::uint32_t>(index));
}
MUSAIC_FN float key_value(std::uint64_t key) { return value_of_key(static_cast<std::uint32_t>(key >> 32)); }
MUSAIC_FN int key_index(std::uint64_t key) {
  return static_cast<int>(0xffffffffu - static_cast<std::uint32_t>(key));
}

/// The entries before a place, with min-p.
struct EntryFilter {
  float value = -3.40282347e+38f;
  int index = 0x7fffffff;
  float least = 0.0f;  // of p, or of e^((x - max) / T)

  MUSAIC_FN bool before(int i, float x) const { return x > value || (x == value && i < index); }
};
/// The entries whose key is `key` or larger.
MUSAIC_FN EntryFilter up_to(std::uint64_t key, float least) {
  return {key_value(key), key_index(key) + 1, least};
}

template <class T, bool kLogits>
class RowSearch {
 public:
  MUSAIC_FN RowSearch(SearchShared& shared, const T* row, std::int64_t size)
      : s(shared), row_(row), size_(static_cast<int>(size)) {
    tiles_ = (size_ + kSearchSegments * kTileEntries - 1) / (kSearchSegments * kTileEntries);
    const int segment = tiles_ * kTileEntries;
    segments_ = (size_ + segment - 1) / segment;
    rounds_ = (segments_ + search_warps() - 1) / search_warps();
    const int full = size_ / segment;  // segments without a gap, whose maxima bound the k-th largest
    bound_warps_ = full < search_warps() ? full : search_warps();
  }

  static MUSAIC_FN float absent() { return kLogits ? from_bits(0xff800000u) : 0.0f; }
  MUSAIC_FN float max() const { return max_; }
  static MUSAIC_FN std::uint32_t most_keys() {
    return kKeysOfThread * static_cast<std::uint32_t>(search_threads());
  }

  /// Before every entry that has a weight comes this place.
  static MUSAIC_FN std::uint64_t end_key() {
    return (std::uint64_t{order_key(absent())} << 32) | 0xfffffffeu;
  }

  /// Reads the row: its maximum, and whether it can be drawn from, which is returned. With kBest also its first k entries
  /// into s.keys, in any order, s.count of them; with kMass the masses of its segments, right if is_unscaled().
  template <bool kBest, bool kMass>
  MUSAIC_FN bool scan(int k) {
    const float lowest = absent();
    float m = lowest;
    bool good = true;
    std::uint64_t least = 0;  // of what is worth keeping
    float least_value = lowest;
    if constexpr (kBest) {
      sync_shared();
      if (threadIdx.x == 0) s.count = 0;
      sync_shared();
    }
    int tile = 0;
    WeightSum sum;
    each_tile(
        [&](int i, const F32x8(&x)[kTileVectors]) {
          float largest = lowest;
#pragma unroll
          for (int v = 0; v < kTileVectors; ++v)
#pragma unroll
            for (int j = 0; j < 8; ++j) {
              good = good && x[v][j] >= lowest;  // neither a NaN nor a negative probability
              largest = larger(x[v][j], largest);
              if constexpr (kMass) sum.add(x[v][j] > 1.0f ? 1.0f : x[v][j]);
            }
          m = larger(largest, m);
          if constexpr (kBest) {
            if (k <= 32 * bound_warps_ && (tile & (tile + 1)) == 0)
              raise_bound(order_key(m), k, least, least_value);
            ++tile;
            add_tile(i, x, k, least, least_value);
          }
        },
        [&](int segment) {
          if constexpr (kMass) {
            const std::uint64_t mass = warp_sum(sum.total());
            if (search_lane() == 0 && segment < segments_) s.segments[segment] = mass;
            sum = {};
          }
        });
    if constexpr (kBest) {
      if (k <= 32 * bound_warps_) raise_bound(order_key(m), k, least, least_value);
      drop_below(s, least);
      keep_largest(s, k);
    }
    const std::uint64_t largest = block_max(s, order_key(m));
    const bool bad = block_max(s, good ? 0 : 1) != 0;
    max_ = value_of_key(static_cast<std::uint32_t>(largest));
    if constexpr (!kLogits) set_scale();
    return !bad && max_ > lowest && max_ < from_bits(0x7f800000u);
  }

  MUSAIC_FN void set_temperature(float inverse) { inverse_temperature_ = inverse; }
  MUSAIC_FN bool is_unscaled() const { return scale_a_ == 1.0f && scale_b_ == 1.0f; }

  /// A share of the largest possible weight, in [0, 1].
  MUSAIC_FN float share(float x) const {
    if constexpr (kLogits)
      return relative_probability(x, max_, inverse_temperature_);
    else
      return (x * scale_a_) * scale_b_;
  }
  MUSAIC_FN std::uint64_t weight(float x) const {
    WeightSum sum;
    sum.add(share(x));
    return sum.total();
  }
  /// What min-p compares.
  MUSAIC_FN float compared(float x, float share_of_x) const { return kLogits ? share_of_x : x; }

  MUSAIC_FN int first_largest() const {
    int first = size_;
    each([&](int i, float x) {
      if (x == max_ && i < first) first = i;
    });
    return key_index(block_max(s, place_key(0.0f, first)));
  }

  /// The mass of the entries that a filter keeps; that of each segment to s.segments.
  MUSAIC_FN std::uint64_t fill_segments(const EntryFilter& filter) const {
    sync_shared();
    std::uint64_t total = 0;
    WeightSum sum;
    each_tile([&](int i, const F32x8(&x)[kTileVectors]) { add_kept(filter, i, x, sum); },
              [&](int segment) {
                const std::uint64_t mass = warp_sum(sum.total());
                if (search_lane() == 0 && segment < segments_) s.segments[segment] = mass;
                total += mass;
                sum = {};
              });
    return fold_warps(s, total, [](std::uint64_t a, std::uint64_t b) { return a + b; });
  }
  MUSAIC_FN std::uint64_t segments_mass() const {
    sync_shared();
    std::uint64_t mine = 0;
    for (int i = static_cast<int>(threadIdx.x); i < segments_; i += search_threads()) mine += s.segments[i];
    return block_sum(s, mine);
  }
  MUSAIC_FN std::uint64_t mass(const EntryFilter& filter) const {
    std::uint64_t total = 0;
    WeightSum sum;
    each_tile([&](int i, const F32x8(&x)[kTileVectors]) { add_kept(filter, i, x, sum); },
              [&](int) {
                total += sum.total();
                sum = {};
              });
    return block_sum(s, total);
  }

  /// Key of the entry whose inclusive prefix over what filled s.segments is the first above `point`; each warp for a
  /// point of its own.
  MUSAIC_FN std::uint64_t locate(std::uint64_t point, const EntryFilter& filter) const {
    constexpr int kEach = kSearchSegments / 32;
    const int first = kEach * search_lane();
    std::uint64_t mine = 0;
    for (int q = 0; q < kEach; ++q) mine += first + q < segments_ ? s.segments[first + q] : 0;
    std::uint64_t before = warp_prefix(mine) - mine;
    std::uint64_t here = 0;  // 1 + the segment, and what lies before it, where this lane has it
    std::uint64_t base = 0;
    for (int q = 0; q < kEach; ++q) {
      const std::uint64_t w = first + q < segments_ ? s.segments[first + q] : 0;
      if (before <= point && point - before < w) {
        here = static_cast<std::uint64_t>(first + q + 1);
        base = before;
      }
      before += w;
    }
    here = warp_sum(here);
    base = warp_sum(base);
    const int segment = here > 0 ? static_cast<int>(here) - 1 : 0;
    std::uint64_t key = 0;
    for (int v = 0; v < tiles_ * kTileVectors; ++v) {
      const int i = (segment * tiles_ * kTileVectors + v) * 256 + 8 * search_lane();
      const F32x8 x = load_entries(i);
      std::uint64_t w[8], sum = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        w[j] = kept_weight(filter, i + j, x[j]);
        sum += w[j];
      }
      const std::uint64_t up_to_here = base + warp_prefix(sum);
      std::uint64_t prefix = up_to_here - sum;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        if (prefix <= point && point - prefix < w[j]) key = place_key(x[j], i + j);
        prefix += w[j];
      }
      base = exchange_from(up_to_here, 31);
    }
    return warp_sum(key);  // one lane has it
  }

  /// Key of the first entry of the order up to which the count (or the mass) of the entries with a weight reaches
  /// `target`, if it comes before `end`; else the key next before `end` in the order.
  template <bool kMass>
  MUSAIC_FN std::uint64_t reach(std::uint64_t target, std::uint64_t end) const {
    // Sought: the largest value v with measure(x >= v) >= target; above `high` it does not reach, from `low` on it does.
    std::uint32_t low = order_key(absent()) + 1, high = static_cast<std::uint32_t>(order_key(max_));
    const std::uint32_t end_value = static_cast<std::uint32_t>(end >> 32);
    if (low < end_value) low = end_value;
    std::uint64_t above = 0, inside = ~std::uint64_t{0};  // measure above `high`; entries in [low, high]
    const EntryFilter until{key_value(end), key_index(end), 0.0f};
    bool reaches = false;
    while (low < high && inside > most_keys() / 2) {
      const std::uint32_t quarter = (high - low) / 4;
      const std::uint32_t p1 = low + quarter + 1, p2 = low + 2 * quarter + 1, p3 = low + 3 * quarter + 1;
      Pivots sums[3], all_of_it;
      each([&](int i, float x) {
        const std::uint32_t value = order_key(x);
        if (value < low || value > high || !until.before(i, x)) return;
        const std::uint64_t w = measure<kMass>(x);
        all_of_it.add(w);
        if (value >= p1) sums[0].add(w);
        if (value >= p2) sums[1].add(w);
        if (value >= p3) sums[2].add(w);
      });
      const Pivots whole = all_of_it.of_block(s), from1 = sums[0].of_block(s), from2 = sums[1].of_block(s),
                   from3 = sums[2].of_block(s);
      if (above + whole.measure < target) return end + 1;
      reaches = true;
      if (above + from3.measure >= target) {
        low = p3;
        inside = from3.count;
      } else if (above + from2.measure >= target) {
        low = p2;
        high = p3 - 1;
        above += from3.measure;
        inside = from2.count - from3.count;
      } else if (above + from1.measure >= target) {
        low = p1;
        high = p2 - 1;
        above += from2.measure;
        inside = from1.count - from2.count;
      } else {
        high = p1 - 1;
        above += from1.measure;
        inside = whole.count - from1.count;
      }
    }
    if (low >= high) return reach_among_equals<kMass>(target, above, value_of_key(low), until, reaches, end);
    return reach_among_few<kMass>(target, above, low, high, until, end);
  }

  template <class F>
  MUSAIC_FN void each(F f) const {
    each_tile(
        [&](int i, const F32x8(&x)[kTileVectors]) {
#pragma unroll
          for (int v = 0; v < kTileVectors; ++v)
#pragma unroll
            for (int j = 0; j < 8; ++j)
              if (i + 256 * v + j < size_) f(i + 256 * v + j, x[v][j]);
        },
        [](int) {});
  }

  SearchShared& s;

 private:
  struct Pivots {
    std::uint64_t measure = 0, count = 0;
    MUSAIC_FN void add(std::uint64_t w) {
      measure += w;
      ++count;
    }
    MUSAIC_FN Pivots of_block(SearchShared& s) const {
      Pivots r;
      r.measure = block_sum(s, measure);
      r.count = block_sum(s, count);
      return r;
    }
  };

  /// tile(index of the first of this lane's entries, which are 256 apart by vectors) and end(segment) after each.
  template <class Tile, class End>
  MUSAIC_FN void each_tile(Tile tile, End end) const {
    for (int round = 0; round < rounds_; ++round) {
      const int segment = round * search_warps() + search_warp();
      for (int t = 0; t < tiles_; ++t) {
        const int i = (segment * tiles_ + t) * kTileEntries + 8 * search_lane();
        F32x8 x[kTileVectors];
#pragma unroll
        for (int v = 0; v < kTileVectors; ++v) x[v] = load_entries(i + 256 * v);
        tile(i, x);
      }
      end(segment);
    }
  }
  MUSAIC_FN F32x8 load_entries(int i) const {
    if (i + 8 <= size_) return load8(row_ + i);
    F32x8 x;
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = i + j < size_ ? load(row_[i + j]) : absent();
    return x;
  }

  MUSAIC_FN void set_scale() {
    const int n = -weight_exponent(max_), half = n >> 1;
    scale_a_ = from_bits(static_cast<std::uint32_t>(half + 127) << 23);
    scale_b_ = from_bits(static_cast<std::uint32_t>(n - half + 127) << 23);
  }

  MUSAIC_FN void add_kept(const EntryFilter& filter, int i, const F32x8 (&x)[kTileVectors],
                          WeightSum& sum) const {
#pragma unroll
    for (int v = 0; v < kTileVectors; ++v)
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float q = share(x[v][j]);
        if (filter.before(i + 256 * v + j, x[v][j]) && compared(x[v][j], q) >= filter.least) sum.add(q);
      }
  }
  MUSAIC_FN std::uint64_t kept_weight(const EntryFilter& filter, int i, float x) const {
    const float q = share(x);
    WeightSum sum;
    if (i < size_ && filter.before(i, x) && compared(x, q) >= filter.least) sum.add(q);
    return sum.total();
  }
  template <bool kMass>
  MUSAIC_FN std::uint64_t measure(float x) const {
    return kMass ? weight(x) : 1;
  }

  MUSAIC_FN void raise_bound(std::uint32_t largest_of_thread, int k, std::uint64_t& least,
                             float& least_value) const {
    const std::uint64_t bound = std::uint64_t{bound_of_largest(s, largest_of_thread, k, bound_warps_)} << 32;
    if (bound > least) {
      least = bound;
      least_value = key_value(least);
    }
  }

  /// Adds the entries of a tile whose key is `least` or larger to s.keys.
  MUSAIC_FN void add_tile(int i, const F32x8 (&x)[kTileVectors], int k, std::uint64_t& least,
                          float& least_value) const {
    const std::uint32_t before = s.count;
    int wanted = 0;
#pragma unroll
    for (int v = 0; v < kTileVectors; ++v)
#pragma unroll
      for (int j = 0; j < 8; ++j) wanted += is_wanted(i + 256 * v + j, x[v][j], least, least_value) ? 1 : 0;
    sync_shared();  // all have read the count
    std::uint32_t place = wanted > 0 ? atomicAdd(&s.count, static_cast<std::uint32_t>(wanted)) : 0;
    if (wanted > 0)
#pragma unroll
      for (int v = 0; v < kTileVectors; ++v)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          if (is_wanted(i + 256 * v + j, x[v][j], least, least_value)) {
            if (place < most_keys()) s.keys[place] = place_key(x[v][j], i + 256 * v + j);
            ++place;
          }
    sync_shared();
    if (s.count <= most_keys()) return;
    // Too many: once more in steps that fit.
    sync_shared();
    if (threadIdx.x == 0) s.count = before;
    sync_shared();
    for (int v = 0; v < kTileVectors; ++v)
      for (int j = 0; j < 8; ++j) {
        if (s.count > most_keys() - static_cast<std::uint32_t>(search_threads())) {
          const std::uint64_t kth = keep_largest(s, k);
          if (kth > least) {
            least = kth;
            least_value = key_value(least);
          }
        }
        sync_shared();
        float entry = absent();
#pragma unroll
        for (int w = 0; w < kTileVectors; ++w)
#pragma unroll
          for (int l = 0; l < 8; ++l) entry = w == v && l == j ? x[w][l] : entry;
        if (is_wanted(i + 256 * v + j, entry, least, least_value))
          s.keys[atomicAdd(&s.count, 1u)] = place_key(entry, i + 256 * v + j);
        sync_shared();
      }
  }
  MUSAIC_FN bool is_wanted(int i, float x, std::uint64_t least, float least_value) const {
    return x >= least_value && x > absent() && place_key(x, i) >= least;
  }
  template <bool kMass>
  MUSAIC_FN std::uint64_t reach_among_few(std::uint64_t target, std::uint64_t above, std::uint32_t low,
                                          std::uint32_t high, const EntryFilter& until,
                                          std::uint64_t end) const {
    sync_shared();
    if (threadIdx.x == 0) s.count = 0;
    sync_shared();
    each([&](int i, float x) {
      const std::uint32_t value = order_key(x);
      if (value >= low && value <= high && until.before(i, x))
        s.keys[atomicAdd(&s.count, 1u)] = place_key(x, i);
    });
    sync_shared();
    const auto n = static_cast<int>(s.count);
    pad_keys(s, n, static_cast<int>(most_keys()) / 2);
    sort_keys(s.keys, static_cast<int>(most_keys()) / 2);
    const int first = 2 * static_cast<int>(threadIdx.x);
    const std::uint64_t w0 = first < n ? measure<kMass>(key_value(s.keys[first])) : 0,
                        w1 = first + 1 < n ? measure<kMass>(key_value(s.keys[first + 1])) : 0;
    const std::uint64_t to1 = above + block_prefix(s, w0 + w1), to0 = to1 - w1;
    std::uint64_t mine = 0;
    if (to0 >= target && to0 - w0 < target && w0 > 0) mine = s.keys[first];
    if (to1 >= target && to0 < target && w1 > 0) mine = s.keys[first + 1];
    const std::uint64_t found = block_max(s, mine);
    return found != 0 ? found : end + 1;
  }

  template <bool kMass>
  MUSAIC_FN std::uint64_t reach_among_equals(std::uint64_t target, std::uint64_t above, float value,
                                             const EntryFilter& until, bool reaches,
                                             std::uint64_t end) const {
    const std::uint64_t one = measure<kMass>(value);
    if (one == 0) return end + 1;
    const std::uint64_t n = (target - above + one - 1) / one;  // the n-th of them
    sync_shared();
    std::uint64_t count = 0;
    each_tile(
        [&](int i, const F32x8(&x)[kTileVectors]) {
#pragma unroll
          for (int v = 0; v < kTileVectors; ++v)
#pragma unroll
            for (int j = 0; j < 8; ++j)
              count += x[v][j] == value && i + 256 * v + j < size_ && until.before(i + 256 * v + j, x[v][j])
                           ? 1
                           : 0;
        },
        [&](int segment) {
          const std::uint64_t equal = warp_sum(count);
          if (search_lane() == 0 && segment < segments_) s.segments[segment] = equal;
          count = 0;
        });
    if (!reaches && segments_mass() < n) return end + 1;
    sync_shared();
    // As locate(), of entries that each measure 1.
    std::uint64_t point = n - 1;
    int segment = 0;
    while (segment < segments_ - 1 && point >= s.segments[segment]) point -= s.segments[segment++];
    std::uint64_t key = 0, base = 0;
    for (int v = 0; v < tiles_ * kTileVectors; ++v) {
      const int i = (segment * tiles_ * kTileVectors + v) * 256 + 8 * search_lane();
      const F32x8 x = load_entries(i);
      std::uint64_t sum = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) sum += is_equal(i + j, x[j], value, until) ? 1 : 0;
      const std::uint64_t up_to_here = base + warp_prefix(sum);
      std::uint64_t prefix = up_to_here - sum;
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (is_equal(i + j, x[j], value, until) && prefix++ == point) key = place_key(x[j], i + j);
      base = exchange_from(up_to_here, 31);
    }
    return warp_sum(key);
  }
  MUSAIC_FN bool is_equal(int i, float x, float value, const EntryFilter& until) const {
    return x == value && i < size_ && until.before(i, x);
  }

  const T* row_;
  int size_, tiles_, segments_, rounds_, bound_warps_;
  float max_ = 0.0f, inverse_temperature_ = 1.0f, scale_a_ = 1.0f, scale_b_ = 1.0f;
};

}  // namespace musaic::MUSAIC_TARGET
