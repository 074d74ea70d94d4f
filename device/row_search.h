// A row seen by a block of threads: tiles of it, sums of its weights, and the entries where a count or a mass is
// reached. For GPU forms.
#pragma once

#include "device/block_search.h"

namespace musaic::MUSAIC_TARGET {

inline constexpr int kTileVectors = 2;                      // of eight entries, which a thread reads at once
inline constexpr int kTileEntries = 32 * 8 * kTileVectors;  // of a warp
inline constexpr int kSearchSegments = 512;                 // at most; a warp's tile or a few

/// An entry's place in the total order, larger is earlier: value descending, then index ascending.
MUSAIC_FN std::uint64_t place_key(float x, int index) {
  return (std::uint64_t{order_key(x)} << 32) | ~static_cast<std::uint32_t>(index);
}
MUSAIC_FN float key_value(std::uint64_t key) { return value_of_key(static_cast<std::uint32_t>(key >> 32)); }
MUSAIC_FN int key_index(std::uint64_t key) { return static_cast<int>(~static_cast<std::uint32_t>(key)); }

/// Entries and what each of them counts: the weights of those before a place that pass min-p, or 1 for each that equals
/// the place's value and stands before it. One text for both, chosen at run time: the code is large when inlined.
struct Measure {
  float value = -3.40282347e+38f;
  int index = 0x7fffffff;
  float least = 0.0f;  // of p, or of e^((x - max) / T)
  bool is_count = false;
};
/// The weights of the entries whose key is `key` or larger.
MUSAIC_FN Measure up_to(std::uint64_t key, float least) {
  return {key_value(key), key_index(key) + 1, least, false};
}
/// The weights of the entries whose key is larger.
MUSAIC_FN Measure down_to(std::uint64_t key) { return {key_value(key), key_index(key), 0.0f, false}; }

/// Keys of values.
struct ValueRange {
  std::uint32_t low, high;
};
/// The entry where a measure is reached, and the measure up to it.
struct Reached {
  std::uint64_t key, measure;
};

template <class T, bool kLogits>
class RowSearch {
 public:
  MUSAIC_FN RowSearch(SearchShared& shared, const T* row, std::int64_t size)
      : s(shared), row_(row), size_(static_cast<int>(size)), is_wide_(is_wide(row)) {
    tiles_ = (size_ + kSearchSegments * kTileEntries - 1) / (kSearchSegments * kTileEntries);
    const int segment = tiles_ * kTileEntries;
    segments_ = (size_ + segment - 1) / segment;
    rounds_ = (segments_ + search_warps() - 1) / search_warps();
    const int full = size_ / segment;  // segments without a gap, whose maxima bound the k-th largest
    bound_warps_ = full < search_warps() ? full : search_warps();
  }

  static MUSAIC_FN float absent() { return kLogits ? from_bits(0xff800000u) : 0.0f; }
  /// Before every entry that has a weight comes this place.
  static MUSAIC_FN std::uint64_t end_key() {
    return (std::uint64_t{order_key(absent())} << 32) | 0xfffffffeu;
  }
  static MUSAIC_FN std::uint32_t most_keys() {
    return kKeysOfThread * static_cast<std::uint32_t>(search_threads());
  }
  MUSAIC_FN float max() const { return max_; }
  MUSAIC_FN int size() const { return size_; }
  /// Of a scanned row: neither a NaN nor a negative probability.
  MUSAIC_FN bool is_numbers() const { return is_numbers_; }
  /// Whether an entry stands before the measure's place.
  MUSAIC_FN bool keeps(const Measure& m, int i, float x) const {
    return x > m.value || (x == m.value && i < m.index);
  }
  MUSAIC_FN void set_temperature(float inverse) { inverse_temperature_ = inverse; }

  /// Reads the row: its maximum, and whether it can be drawn from, which is returned. With kBest also its first k entries
  /// into s.keys, in any order, s.count of them. Of probabilities also the masses of the segments, right if
  /// has_masses().
  ///
  /// With kGuide, for probabilities: a histogram of their weights, which tells where a mass is reached to within a few
  /// entries' worth. Entries below `skip` are left out of it.
  template <bool kBest, bool kGuide = false>
  MUSAIC_FN bool scan(int k, float skip = 0.0f) {
    const Scanned scanned = scan_row<kBest, kGuide>(*this, k, skip);
    max_ = scanned.max;
    is_numbers_ = scanned.is_numbers;
    if (!(is_numbers_ && max_ > absent() && max_ < from_bits(0x7f800000u))) return false;
    if constexpr (!kLogits) {
      const int n = -weight_exponent(max_), half = n >> 1;
      scale_a_ = from_bits(static_cast<std::uint32_t>(half + 127) << 23);
      scale_b_ = from_bits(static_cast<std::uint32_t>(n - half + 127) << 23);
      has_masses_ = n == 0;
    }
    return true;
  }

  /// Turns the guide into sums: of all bins from each one on. Returns whether it can be used: the row is scaled by 1 and
  /// its mass is below 4.
  MUSAIC_FN bool sum_guide(std::uint64_t mass) {
    std::uint32_t* const guide = guide_bins();
    const int each = (kGuideBins + search_threads()) / search_threads();
    const int top = kGuideBins - static_cast<int>(threadIdx.x) * each;  // this thread's bins, downwards
    sync_shared();
    std::uint64_t sum = 0;
    for (int q = 0; q < each; ++q) sum += top - q >= 0 ? guide[top - q] : 0;
    std::uint64_t up_to = block_prefix(s, sum) - sum;
    for (int q = 0; q < each; ++q)
      if (top - q >= 0) {
        up_to += guide[top - q];
        guide[top - q] = static_cast<std::uint32_t>(up_to);
      }
    sync_shared();
    return scale_a_ * scale_b_ == 1.0f && mass < (std::uint64_t{4} << 40) - (std::uint64_t{1} << 32);
  }
  /// Whether the mass before an entry is below a threshold: 1, 0, or -1 if the guide cannot tell.
  MUSAIC_FN int guide_says(float x, std::uint64_t threshold, float skip, std::uint64_t mass) const {
    if (x < skip) {
      // Before it comes at least all but what was left out.
      const std::uint64_t left_out = static_cast<std::uint64_t>(size_) * (weight(skip) + 1);
      return mass >= threshold + left_out ? 0 : -1;
    }
    const std::uint32_t* const guide = guide_bins();
    const int bin = guide_bin(x);
    const std::uint64_t from = guide[bin], above = bin < kGuideBins ? guide[bin + 1] : 0;
    if (((from + static_cast<std::uint64_t>(size_)) << 10) < threshold) return 1;
    return (above << 10) >= threshold ? 0 : -1;
  }
  /// Keys of values between which the mass of a threshold is reached, if the guide knows; it need not be right.
  MUSAIC_FN ValueRange guide_range(std::uint64_t threshold) const {
    const std::uint32_t* const guide = guide_bins();
    std::uint64_t last = 0, first = 0;  // 1 + the highest bins where the mass may and must have been reached
    for (int b = static_cast<int>(threadIdx.x); b <= kGuideBins; b += search_threads()) {
      const std::uint64_t from = guide[b];
      if (((from + static_cast<std::uint64_t>(size_)) << 10) >= threshold)
        last = static_cast<std::uint64_t>(b) + 1;
      if ((from << 10) >= threshold) first = static_cast<std::uint64_t>(b) + 1;
    }
    first = block_max(s, first);
    last = block_max(s, last);
    if (first == 0 || last == 0) return {0, 0};
    return {order_key(bin_floor(static_cast<int>(first) - 1)),
            order_key(bin_floor(static_cast<int>(last))) - 1};
  }

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

  MUSAIC_FN int first_largest() {
    const Measure equal{max_, 0x7fffffff, 0.0f, true};
    fill_segments(equal);
    return key_index(locate(0, equal));
  }

  /// The mass of the row, with that of each segment in s.segments.
  MUSAIC_FN std::uint64_t row_mass() {
    if (!has_masses_) return fill_segments(Measure{});
    sync_shared();
    std::uint64_t mine = 0;
    for (int i = static_cast<int>(threadIdx.x); i < segments_; i += search_threads())
      mine += s.segments[spread_16(i)];
    return block_sum(s, mine);
  }

  /// The sum of a measure; that of each segment to s.segments.
  MUSAIC_FN std::uint64_t fill_segments(const Measure& m) {
    has_masses_ = false;
    return segment_sums(*this, m);
  }

  /// Key of the entry whose inclusive prefix over what filled s.segments is the first above `point`; each warp for a
  /// point of its own.
  MUSAIC_FN std::uint64_t locate(std::uint64_t point, const Measure& m) const {
    return locate_in_segments(*this, point, m);
  }

  /// Key of the first entry of the order up to which the count (or the mass) of the entries above absent() reaches
  /// `target`, if it comes before `end`; else the key next before `end` in the order.
  /// `hint`, if not empty, is a range of values where it is likely.
  MUSAIC_FN Reached reach(bool is_mass, std::uint64_t target, std::uint64_t end, ValueRange hint = {0, 0}) {
    has_masses_ = false;
    return reach_from(*this, is_mass, target, end, hint);
  }

  /// f(index of the first, eight entries, whether all eight are the row's), shared by the threads.
  template <class F>
  MUSAIC_FN void each_vector(F f) const {
    const int step = 8 * search_threads();
#pragma unroll 1
    for (int i = 8 * static_cast<int>(threadIdx.x); i < size_; i += 2 * step) {
      const F32x8 x = load_entries(i), y = load_entries(i + step);  // two reads under way
      f(i, x, i + 8 <= size_);
      if (i + step < size_) f(i + step, y, i + step + 8 <= size_);
    }
  }
  /// f(index, entry) for all entries.
  template <class F>
  MUSAIC_FN void each(F f) const {
    each_vector([&](int i, const F32x8& x, bool) {
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (i + j < size_) f(i + j, x[j]);
    });
  }

  SearchShared& s;

 private:
  /// 128 bins an octave from 2^-40 to 1, by a float's upper bits.
  static constexpr int kGuideBins = 40 * 128;
  MUSAIC_FN std::uint32_t* guide_bins() const { return reinterpret_cast<std::uint32_t*>(s.keys); }
  static MUSAIC_FN int guide_bin(float x) {
    const int bin = static_cast<int>(as_bits(x) >> 16) - ((127 - 40) << 7);
    return bin > 0 ? bin : 0;
  }
  static MUSAIC_FN float bin_floor(int bin) {
    return from_bits(static_cast<std::uint32_t>(bin + ((127 - 40) << 7)) << 16);
  }

  // These take the search by value, so that a kernel can keep its own in registers.
  struct Scanned {
    float max;
    bool is_numbers;
  };
  template <bool kBest, bool kGuide>
  static MUSAIC_CALLED_FN Scanned scan_row(const RowSearch r, int k, float skip) {
    return r.template read_row<kBest, kGuide>(k, skip);
  }
  static MUSAIC_CALLED_FN std::uint64_t segment_sums(const RowSearch r, const Measure m) {
    return r.sum_segments(m);
  }
  static MUSAIC_CALLED_FN std::uint64_t locate_in_segments(const RowSearch r, std::uint64_t point,
                                                           const Measure m) {
    return r.find_in_segments(point, m);
  }
  static MUSAIC_CALLED_FN Reached reach_from(const RowSearch r, bool is_mass, std::uint64_t target,
                                             std::uint64_t end, const ValueRange hint) {
    return r.find_reach(is_mass, target, end, hint);
  }

  template <bool kBest, bool kGuide>
  MUSAIC_FN Scanned read_row(int k, float skip) const {
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
    std::uint32_t* const guide = guide_bins();
    if constexpr (kGuide) {
      sync_shared();
      for (int b = static_cast<int>(threadIdx.x); b <= kGuideBins; b += search_threads()) guide[b] = 0;
      sync_shared();
    }
    WeightSum sum;
    int tile = 0;
    for (int round = 0; round < rounds_; ++round) {
      const int segment = round * search_warps() + search_warp();
      for (int t = 0; t < tiles_; ++t) {
        const int i = (segment * tiles_ + t) * kTileEntries + 8 * search_lane();
        F32x8 x[kTileVectors];
#pragma unroll
        for (int v = 0; v < kTileVectors; ++v) x[v] = load_entries(i + 256 * v);
        float largest = lowest;
#pragma unroll
        for (int v = 0; v < kTileVectors; ++v)
#pragma unroll
          for (int j = 0; j < 8; ++j) {
            good = good && x[v][j] >= lowest;  // neither a NaN nor a negative probability
            largest = larger(x[v][j], largest);
            if constexpr (!kLogits) sum.add(smaller(x[v][j], 1.0f));
            if constexpr (kGuide) {
              // 2^30 to a share: sums below 4 fit.
              if (x[v][j] >= skip && x[v][j] <= 1.0f)
                atomicAdd(&guide[guide_bin(x[v][j])],
                          static_cast<std::uint32_t>(to_int(x[v][j] * 1073741824.0f)));
            }
          }
        m = larger(largest, m);
        if constexpr (kBest) {
          if (k <= 32 * bound_warps_ && (tile & (tile + 1)) == 0) raise_bound(m, k, least, least_value);
          ++tile;
          add_tile(i, x, largest, k, least, least_value);
        }
      }
      if constexpr (!kLogits) {
        const std::uint64_t mass = warp_sum(sum.total());
        if (search_lane() == 0 && segment < segments_) s.segments[spread_16(segment)] = mass;
        sum = {};
      }
    }
    if constexpr (kBest) {
      if (k <= 32 * bound_warps_) raise_bound(m, k, least, least_value);
      drop_below(s, least);
      keep_largest(s, k);
    }
    const float largest = value_of_key(static_cast<std::uint32_t>(block_max(s, order_key(m))));
    return {largest, block_max(s, good ? 0 : 1) == 0};
  }

  MUSAIC_FN std::uint64_t sum_segments(const Measure& m) const {
    sync_shared();
    std::uint64_t total = 0;
    for (int round = 0; round < rounds_; ++round) {
      const int segment = round * search_warps() + search_warp();
      WeightSum sum;
#pragma unroll 1
      for (int t = 0; t < tiles_; ++t) {
        const int i = (segment * tiles_ + t) * kTileEntries + 8 * search_lane();
        F32x8 x[kTileVectors];
#pragma unroll
        for (int v = 0; v < kTileVectors; ++v) x[v] = load_entries(i + 256 * v);
#pragma unroll
        for (int v = 0; v < kTileVectors; ++v)
#pragma unroll
          for (int j = 0; j < 8; ++j) add(m, i + 256 * v + j, x[v][j], sum);
      }
      const std::uint64_t part = warp_sum(sum.total());
      if (search_lane() == 0 && segment < segments_) s.segments[spread_16(segment)] = part;
      total += part;
    }
    return fold_warps(s, total, [](std::uint64_t a, std::uint64_t b) { return a + b; });
  }

  MUSAIC_FN std::uint64_t find_in_segments(std::uint64_t point, const Measure& m) const {
    constexpr int kEach = kSearchSegments / 32;
    const int first = kEach * search_lane();
    std::uint64_t mine = 0;
#pragma unroll 1
    for (int q = 0; q < kEach; ++q) mine += first + q < segments_ ? s.segments[spread_16(first + q)] : 0;
    std::uint64_t earlier = warp_prefix(mine) - mine;
    std::uint64_t here = 0, base = 0;  // 1 + the segment and what lies before it, where this lane has it
#pragma unroll 1
    for (int q = 0; q < kEach; ++q) {
      const std::uint64_t w = first + q < segments_ ? s.segments[spread_16(first + q)] : 0;
      if (earlier <= point && point - earlier < w) {
        here = static_cast<std::uint64_t>(first + q + 1);
        base = earlier;
      }
      earlier += w;
    }
    here = warp_sum(here);
    base = warp_sum(base);
    const int segment = here > 0 ? static_cast<int>(here) - 1 : 0;
    std::uint64_t key = 0;
#pragma unroll 1
    for (int v = 0; v < tiles_ * kTileVectors; ++v) {
      const int i = (segment * tiles_ * kTileVectors + v) * 256 + 8 * search_lane();
      const F32x8 x = load_entries(i);
      std::uint64_t w[8], sum = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        WeightSum one;
        add(m, i + j, x[j], one);
        w[j] = one.total();
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

  MUSAIC_FN Reached find_reach(bool is_mass, std::uint64_t target, std::uint64_t end,
                               const ValueRange hint) const {
    const auto end_value = static_cast<std::uint32_t>(end >> 32);
    const std::uint32_t least = order_key(absent()) + 1 > end_value ? order_key(absent()) + 1 : end_value;
    // Sought: the largest value whose entries and those above measure `target`; it lies in [low, high].
    bool is_hinted = hint.low > least && hint.low < hint.high;
    std::uint32_t low = is_hinted ? hint.low : least, high = is_hinted ? hint.high : order_key(max_);
    std::uint64_t above = 0, inside = ~std::uint64_t{0};  // the measure above `high`; entries in [low, high]
    bool is_sure = false;
    const std::uint32_t room = most_keys() / 2;
    while (low < high && inside > room) {
      const std::uint32_t quarter = (high - low) / 4;
      const std::uint32_t from[4] = {low, low + quarter + 1, low + 2 * quarter + 1, low + 3 * quarter + 1};
      std::uint64_t measure[4] = {}, count[4] = {}, higher = 0;
      std::uint32_t lowest_seen = ~std::uint32_t{0}, highest_seen = 0;
      bool has_room = is_hinted;
      sync_shared();
      if (threadIdx.x == 0) s.count = 0;
      sync_shared();
      each([&](int i, float x) {
        const std::uint32_t value = order_key(x);
        if (value < low) return;
        const std::uint64_t key = place_key(x, i);
        if (key <= end) return;
        const std::uint64_t w = is_mass ? weight(x) : 1;
        if (value > high) {
          higher += w;
          return;
        }
        lowest_seen = value < lowest_seen ? value : lowest_seen;
        highest_seen = value > highest_seen ? value : highest_seen;
#pragma unroll
        for (int p = 0; p < 4; ++p)
          if (value >= from[p]) {
            measure[p] += w;
            ++count[p];
          }
        if (has_room) {
          const std::uint32_t place = atomicAdd(&s.count, 1u);
          has_room = place < room;
          if (has_room) s.keys[place] = key;
        }
      });
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        measure[p] = block_sum(s, measure[p]);
        count[p] = block_sum(s, count[p]);
      }
      if (is_hinted) {
        is_hinted = false;
        higher = block_sum(s, higher);
        if (higher >= target || higher + measure[0] < target) {  // a wrong hint
          low = least;
          high = order_key(max_);
          continue;
        }
        above = higher;
        if (count[0] <= room) return reach_among_keys(is_mass, target, above, end);
      }
      if (above + measure[0] < target) return {end + 1, above + measure[0]};
      is_sure = true;
      int p = 3;
      while (above + measure[p] < target) --p;
      std::uint64_t measure_above = 0, count_above = 0;
#pragma unroll
      for (int q = 1; q < 4; ++q)
        if (q == p + 1) {
          measure_above = measure[q];
          count_above = count[q];
          high = from[q] - 1;
        }
#pragma unroll
      for (int q = 0; q < 4; ++q)
        if (q == p) {
          inside = count[q] - count_above;
          low = from[q];
        }
      above += measure_above;
      const auto seen_high = static_cast<std::uint32_t>(block_max(s, highest_seen)),
                 seen_low = ~static_cast<std::uint32_t>(block_max(s, ~lowest_seen));
      low = seen_low > low ? seen_low : low;
      high = seen_high < high ? seen_high : high;
    }
    if (low < high) {
      sync_shared();
      if (threadIdx.x == 0) s.count = 0;
      sync_shared();
      each([&](int i, float x) {
        const std::uint32_t value = order_key(x);
        const std::uint64_t key = place_key(x, i);
        if (value >= low && value <= high && key > end) s.keys[atomicAdd(&s.count, 1u)] = key;
      });
      sync_shared();
      return reach_among_keys(is_mass, target, above, end);
    }
    // Entries of one value: the n-th of them.
    const float value = value_of_key(low);
    const std::uint64_t one = is_mass ? weight(value) : 1;
    if (one == 0) return {end + 1, above};
    const std::uint64_t n = (target - above + one - 1) / one;
    const Measure equal{value, low == end_value ? key_index(end) : 0x7fffffff, 0.0f, true};
    const std::uint64_t equals = segment_sums(*this, equal);
    if (equals < n && !is_sure) return {end + 1, above + equals * one};
    sync_shared();
    return {locate(n - 1, equal), above + n * one};
  }

  MUSAIC_FN F32x8 load_entries(int i) const {
    if (is_wide_ && i + 8 <= size_) return load8(row_ + i);
    F32x8 x;
#pragma unroll
    for (int j = 0; j < 8; ++j) x[j] = i + j < size_ ? load(row_[i + j]) : absent();
    return x;
  }

  MUSAIC_FN void add(const Measure& m, int i, float x, WeightSum& sum) const {
    if (m.is_count) {
      if (x == m.value && i < m.index && i < size_) sum.add_one();
      return;
    }
    const float q = share(x);
    if (keeps(m, i, x) && compared(x, q) >= m.least && i < size_) sum.add(q);
  }

  MUSAIC_FN void raise_bound(float largest_of_thread, int k, std::uint64_t& least, float& least_value) const {
    const std::uint64_t bound =
        std::uint64_t{bound_of_largest(s, order_key(largest_of_thread), k, bound_warps_)} << 32;
    if (bound > least) {
      least = bound;
      least_value = key_value(least);
    }
  }

  /// Adds the entries of a tile whose key is `least` or larger to s.keys.
  MUSAIC_FN void add_tile(int i, const F32x8 (&x)[kTileVectors], float largest, int k, std::uint64_t& least,
                          float& least_value) const {
    const std::uint32_t before = s.count;
    sync_shared();  // all have read the count
    if (largest >= least_value) {
#pragma unroll
      for (int v = 0; v < kTileVectors; ++v)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          if (x[v][j] >= least_value) add_key(i + 256 * v + j, x[v][j], least);
    }
    sync_shared();
    if (s.count <= most_keys()) return;
    // Too many: once more in steps that fit.
    sync_shared();
    if (threadIdx.x == 0) s.count = before;
    sync_shared();
#pragma unroll 1
    for (int step = 0; step < 8 * kTileVectors; ++step) {
      if (s.count > most_keys() - static_cast<std::uint32_t>(search_threads())) {
        const std::uint64_t kth = keep_largest(s, k);
        if (kth > least) {
          least = kth;
          least_value = key_value(least);
        }
      }
      sync_shared();
      const int at = i + 256 * (step / 8) + step % 8;
      const float entry = at < size_ ? load(row_[at]) : absent();
      if (entry >= least_value) add_key(at, entry, least);
      sync_shared();
    }
  }
  MUSAIC_FN void add_key(int i, float x, std::uint64_t least) const {
    const std::uint64_t key = place_key(x, i);
    if (key < least || !(x > absent())) return;
    const std::uint32_t place = atomicAdd(&s.count, 1u);
    if (place < most_keys()) s.keys[place] = key;
  }

  /// Of the entries in s.keys, above which the measure is `above`.
  MUSAIC_FN Reached reach_among_keys(bool is_mass, std::uint64_t target, std::uint64_t above,
                                     std::uint64_t end) const {
    const auto n = static_cast<int>(s.count);
    int size = 2;
    while (size < n) size *= 2;
    pad_keys(s, n, size);
    sort_keys(s.keys, size);
    // One entry a thread.
    const int i = static_cast<int>(threadIdx.x);
    const std::uint64_t key = i < n ? s.keys[i] : 0;
    std::uint64_t w = 0;
    if (i < n) w = is_mass ? weight(key_value(key)) : 1;
    const std::uint64_t up_to = above + block_prefix(s, w);
    const bool is_it = up_to >= target && up_to - w < target;
    const std::uint64_t found = block_max(s, is_it ? key : 0), reached = block_max(s, is_it ? up_to : 0);
    if (found != 0) return {found, reached};
    return {end + 1, block_max(s, up_to)};
  }

  const T* row_;
  int size_, tiles_, segments_, rounds_, bound_warps_;
  bool is_wide_, has_masses_ = false, is_numbers_ = false;
  float max_ = 0.0f, inverse_temperature_ = 1.0f, scale_a_ = 1.0f, scale_b_ = 1.0f;
};

}  // namespace musaic::MUSAIC_TARGET
