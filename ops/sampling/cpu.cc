// One thread a row. The row is read once for its maxima in up to 4096 parts, which bound the k-th largest
// from below, so that a top-k looks at few entries again; masses are sums over vectors of eight; nothing is
// stored but what the stack holds.
#include "backends/cpu/entries.h"
#include "backends/cpu/launch.h"
#include "backends/cpu/order.h"
#include "ops/sampling/args.h"
#include "ops/sampling/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

constexpr std::int64_t kMostBlocks = 512;
constexpr std::int64_t kLeastBlock = 512;
constexpr std::int64_t kSmallTopK = 1024;  // above it a top-k is found by histograms of the whole row

/// What a thread needs beside the row; some 70 KiB.
struct Scratch {
  F32x8 maxima[kMostBlocks];          // of block b in eight interleaved parts
  std::uint64_t masses[kMostBlocks];  // of each block, by the sum that tokens are drawn from
  Best<4 * kSmallTopK> best;
  std::uint64_t histogram[2048];
};

template <class T, bool kLogits>
class Sampler {
 public:
  Sampler(Scratch& scratch, const T* row, std::int64_t size)
      : s_(scratch), entries_{row, size, kLogits ? from_bits(0xff800000u) : 0.0f} {
    const std::int64_t least = (size + kMostBlocks - 1) / kMostBlocks;
    block_ = least > kLeastBlock ? (least + 7) / 8 * 8 : kLeastBlock;
    blocks_ = (size + block_ - 1) / block_;
  }

  /// Writes the row with the entries that the rule drops as 0 (or -infinity), and the others as a share of the kept mass
  /// (or as they are).
  void filter(const SamplingRule& rule, T* out) {
    const bool good = scan() && rule.valid;
    if (!kLogits && !good) {
      const bool is_zero = rule.valid && max_ == 0.0f && numbers_;
      for (std::int64_t i = 0; i < entries_.size; ++i)
        MUSAIC_TARGET::store(out + i, is_zero ? 0.0f : from_bits(0x7fc00000u));
      return;
    }
    rule_ = rule;
    Place cut = kEnd;
    if (rule.top_k > 0 && rule.top_k <= kSmallTopK) {
      collect(rule.top_k);
      const std::int64_t n = s_.best.sorted();
      if (n == rule.top_k) cut = {s_.best.value(n - 1), s_.best.index(n - 1) + 1};
    } else if (rule.top_k > 0) {
      cut = place_after(reach<false>(static_cast<std::uint64_t>(rule.top_k), kEnd));
    }
    if constexpr (kLogits) {
      write_kept(cut, out, [](F32x8 x, Mask8 kept) {
        return select(kept | ~(x == x), x, all<F32x8>(from_bits(0xff800000u)));
      });
    } else {
      scale_ = weight_scale(weight_exponent(max_));
      if (rule.first_only)
        cut = {max_, first_largest() + 1};
      else if (rule.top_p < 1.0f)
        cut = place_after(reach<true>(top_p_threshold(rule.top_p, mass(kEnd, false, nullptr)), kEnd));
      const F32x8 sum = all<F32x8>(mass_as_float(mass(cut, false, nullptr)));
      const WeightScale to_share = weight_scale(weight_exponent(max_) + 20);
      write_kept(cut, out, [&](F32x8 x, Mask8 kept) {
        const F32x8 q = (x * all<F32x8>(to_share.a)) * all<F32x8>(to_share.b);
        return select(kept & (q >= all<F32x8>(9.09494702e-13f)), div(q, sum), all<F32x8>(0.0f));  // 2^-40
      });
    }
  }

  /// The token, or -1 for an invalid row.
  std::int64_t run(const SamplingRule& rule, const Draw& draw) {
    if (!rule.valid || !scan()) return -1;
    rule_ = rule;
    if constexpr (!kLogits) scale_ = weight_scale(weight_exponent(max_));
    least_probability_ = kLogits ? rule.min_p : rule.min_p * max_;
    if (rule.first_only) return first_largest();
    if (rule.top_k == 0) return draw_then_accept(draw);
    return rule.top_k <= kSmallTopK ? draw_from_best(draw) : draw_from_prefix(draw);
  }

 private:
  static constexpr Place kEnd = {-3.40282347e+38f, std::int64_t{1} << 62};  // after every entry with a weight

  F32x8 probability(F32x8 x) const {
    if constexpr (kLogits)
      return relative_probability(x, max_, rule_.inverse_temperature);
    else
      return x;
  }
  void split(F32x8 p, I32x8& high, I32x8& low) const {
    if constexpr (kLogits)
      WeightScale{1048576.0f, 1.0f}.split(p, high, low);
    else
      scale_.split(p, high, low);
  }

  std::int64_t end_of(std::int64_t block) const {
    const std::int64_t end = (block + 1) * block_;
    return end < entries_.size ? end : entries_.size;
  }

  /// Fills maxima; false: the row is invalid.
  bool scan() {
    const F32x8 lowest = all<F32x8>(entries_.absent);
    Mask8 good = ~Mask8{};
    F32x8 m = lowest;
    for (std::int64_t b = 0; b < blocks_; ++b) {
      // A NaN fails the comparison, and so does a negative probability.
      s_.maxima[b] = entries_.maxima(b * block_, end_of(b), [&](F32x8 x) { good &= x >= lowest; });
      m = larger(s_.maxima[b], m);
    }
    max_ = largest_lane(m);
    numbers_ = !any(~good);
    return numbers_ && max_ > entries_.absent && max_ < from_bits(0x7f800000u);
  }

  template <class F>
  void write_kept(Place cut, T* out, F f) const {
    entries_.each(0, entries_.size, [&](std::int64_t i, F32x8 x) {
      const F32x8 y = f(x, before8(i, x, cut));
      if (i + 8 <= entries_.size) return FullChunk{i}.store(out, y);
      for (std::int64_t j = 0; i + j < entries_.size; ++j) MUSAIC_TARGET::store(out + i + j, y[j]);
    });
  }

  std::int64_t first_largest() const {
    std::int64_t b = 0;
    while (!any(s_.maxima[b] == all<F32x8>(max_))) ++b;
    return entries_.find(b * block_, end_of(b), max_);
  }

  /// Lanes that stand before `place` in the order.
  static MUSAIC_FN Mask8 before8(std::int64_t i, F32x8 x, Place place) {
    const F32x8 v = all<F32x8>(place.value);
    return (x > v) | ((x == v) & (indices8(i) < splat(I32x8{}, small_index(place))));
  }
  static MUSAIC_FN std::int32_t small_index(Place place) {
    return static_cast<std::int32_t>(place.index < 0x7fffffff ? place.index : 0x7fffffff);
  }

  /// The mass of the entries that stand before `end` in the order and pass min-p where `with_min_p`; the sum
  /// of each block to `masses`, if given.
  std::uint64_t mass(Place end, bool with_min_p, std::uint64_t* masses) const {
    const bool whole = end.index == kEnd.index, all_shares = !with_min_p || rule_.min_p <= 0.0f;
    std::uint64_t total = 0;
    for (std::int64_t b = 0; b < blocks_; ++b) {
      std::uint64_t sum = 0;
      if (whole)
        sum = all_shares ? block_mass<false, false>(b, end) : block_mass<false, true>(b, end);
      else if (any(s_.maxima[b] >= all<F32x8>(end.value)))
        sum = all_shares ? block_mass<true, false>(b, end) : block_mass<true, true>(b, end);
      total += sum;
      if (masses != nullptr) masses[b] = sum;
    }
    return total;
  }

  template <bool kBefore, bool kMinP>
  std::uint64_t block_mass(std::int64_t b, Place end) const {
    I32x8 high{}, low{};
    entries_.each(b * block_, end_of(b), [&](std::int64_t i, F32x8 x) {
      Mask8 kept = ~Mask8{};
      if constexpr (kBefore) {
        kept = before8(i, x, end);
        if (!any(kept)) return;
      }
      const F32x8 p = probability(x);
      I32x8 h, l;
      split(p, h, l);
      if constexpr (kMinP) kept &= p >= all<F32x8>(least_probability_);
      high += kBefore || kMinP ? h & kept : h;
      low += kBefore || kMinP ? l & kept : l;
    });
    return sum_of_parts(high, low);
  }

  /// The entry whose inclusive prefix over what mass(end, with_min_p, masses) summed is the first above
  /// `point`.
  Place at(std::uint64_t point, Place end, bool with_min_p) const {
    std::int64_t b = 0;
    while (point >= s_.masses[b]) point -= s_.masses[b++];
    const float least = with_min_p ? least_probability_ : 0.0f;
    Place found{0.0f, -1};
    for (std::int64_t i = b * block_; found.index < 0; i += 8)
      entries_.each(i, i + 8 < end_of(b) ? i + 8 : end_of(b), [&](std::int64_t, F32x8 x) {
        const Mask8 kept = before8(i, x, end);
        if (!any(kept)) return;
        const F32x8 p = probability(x);
        I32x8 high, low;
        split(p, high, low);
        for (int j = 0; j < 8 && found.index < 0; ++j) {
          if (kept[j] == 0 || !(p[j] >= least)) continue;
          const std::uint64_t w = weight_of(high[j], low[j]);
          if (point < w)
            found = {x[j], i + j};
          else
            point -= w;
        }
      });
    return found;
  }

  static MUSAIC_FN std::uint64_t weight_of(std::int32_t high, std::int32_t low) {
    return (static_cast<std::uint64_t>(high) << 20) + static_cast<std::uint64_t>(low);
  }

  /// No top-k: candidates from the whole row, the first that the filters keep.
  std::int64_t draw_then_accept(const Draw& draw) const {
    const std::uint64_t row_mass = mass(kEnd, false, s_.masses);
    const bool has_top_p = rule_.top_p < 1.0f;
    const std::uint64_t threshold = has_top_p ? top_p_threshold(rule_.top_p, row_mass) : 0;
    // What is known of top-p's cut: it lies after `accepted`, and `rejected` lies behind it.
    Place accepted{from_bits(0x7f800000u), -1}, rejected = kEnd;
    for (int j = 0; j < kCandidates; ++j) {
      const Place c = at(draw.point(j, row_mass), kEnd, false);
      if (has_top_p && before(accepted, c)) {
        if (!before(c, rejected)) continue;
        if (mass(c, false, nullptr) >= threshold) {
          rejected = c;
          continue;
        }
        accepted = c;
      }
      if (passes_min_p(c.value)) return c.index;
    }
    const Place cut = has_top_p ? place_after(reach<true>(threshold, rejected)) : kEnd;
    return at(draw.point(kCandidates, mass(cut, true, s_.masses)), cut, true).index;
  }

  bool passes_min_p(float x) const {
    if (rule_.min_p <= 0.0f) return true;
    return probability(all<F32x8>(x))[0] >= least_probability_;
  }

  static MUSAIC_FN Place place_after(Place p) { return {p.value, p.index + 1}; }

  /// A small top-k: its entries are collected and sorted.
  std::int64_t draw_from_best(const Draw& draw) const {
    collect(rule_.top_k);
    std::int64_t kept = s_.best.sorted();
    std::uint64_t* weights = s_.best.weights();
    std::uint64_t kept_mass = weigh_best(kept, weights);
    if (rule_.top_p < 1.0f) {
      const std::uint64_t threshold =
          top_p_threshold(rule_.top_p, rule_.top_k_first ? kept_mass : mass(kEnd, false, nullptr));
      const std::int64_t n = kept;
      kept_mass = 0;
      for (kept = 0; kept < n && kept_mass < threshold; ++kept) kept_mass += weights[kept];
    }
    if (rule_.min_p > 0.0f)
      for (std::int64_t i = 0; i < kept; ++i)
        if (!passes_min_p(s_.best.value(i))) {
          kept_mass -= weights[i];
          weights[i] = 0;
        }
    return s_.best.at(kept, draw.point(0, kept_mass));
  }

  std::uint64_t weigh_best(std::int64_t n, std::uint64_t* weights) const {
    std::uint64_t sum = 0;
    for (std::int64_t i = 0; i < n; i += 8) {
      float x[8];
      for (std::int64_t j = 0; j < 8; ++j) x[j] = i + j < n ? s_.best.value(i + j) : entries_.absent;
      I32x8 high, low;
      split(probability(load8(x)), high, low);
      for (int j = 0; j < 8 && i + j < n; ++j) sum += weights[i + j] = weight_of(high[j], low[j]);
    }
    return sum;
  }

  /// Puts at least the first k positive entries of the order into best.
  void collect(std::int64_t k) const {
    float bound = lower_bound_of_largest(s_.maxima, blocks_, k, max_, entries_.absent);
    s_.best.clear(k);
    for (std::int64_t b = 0; b < blocks_; ++b) {
      if (!any(s_.maxima[b] >= all<F32x8>(bound))) continue;
      entries_.each(b * block_, end_of(b), [&](std::int64_t i, F32x8 x) {
        const Mask8 large = (x >= all<F32x8>(bound)) & (x > all<F32x8>(entries_.absent));
        if (any(large)) bound = s_.best.add(large, x, i, bound);
      });
    }
  }

  /// A top-k too large to collect: the support is a prefix of the order, found by histograms.
  std::int64_t draw_from_prefix(const Draw& draw) const {
    Place cut = place_after(reach<false>(static_cast<std::uint64_t>(rule_.top_k), kEnd));
    if (rule_.top_p < 1.0f)
      cut = place_after(reach<true>(
          top_p_threshold(rule_.top_p, mass(rule_.top_k_first ? cut : kEnd, false, nullptr)), cut));
    return at(draw.point(0, mass(cut, true, s_.masses)), cut, true).index;
  }

  /// The first place of the order, before `end`, up to which the count (or the mass) of positive entries
  /// reaches `target`; `end` moved back by one index if none does.
  template <bool kMass>
  Place reach(std::uint64_t target, Place end) const {
    constexpr int kShift[] = {21, 10, 0}, kBits[] = {11, 11, 10};
    std::uint32_t prefix = 0;
    for (int level = 0; level < 3; ++level) {
      const std::uint32_t mask = (1u << kBits[level]) - 1;
      const int shift = kShift[level], above = shift + kBits[level];
      for (std::uint64_t& h : s_.histogram) h = 0;
      visit<kMass>(end, level == 0 ? entries_.absent : value_of_key(prefix << above),
                   [&](std::uint32_t key, std::uint64_t measure) {
                     if (level == 0 || (key >> above) == prefix)
                       s_.histogram[(key >> shift) & mask] += measure;
                   });
      std::int64_t bin = mask;
      while (bin >= 0 && s_.histogram[bin] < target) target -= s_.histogram[bin--];
      if (bin < 0) return {end.value, end.index - 1};
      prefix = (prefix << kBits[level]) | static_cast<std::uint32_t>(bin);
    }
    const float value = value_of_key(prefix);
    const std::uint64_t one = kMass ? weight_of_value(value) : 1;
    return {value, nth_equal((target + one - 1) / one, value)};
  }

  /// Index of the n-th entry, n >= 1, that equals v.
  std::int64_t nth_equal(std::uint64_t n, float v) const {
    std::int64_t found = -1;
    for (std::int64_t b = 0; b < blocks_ && found < 0; ++b) {
      if (!any(s_.maxima[b] >= all<F32x8>(v))) continue;
      entries_.each(b * block_, end_of(b), [&](std::int64_t i, F32x8 x) {
        const Mask8 equal = x == all<F32x8>(v);
        if (found >= 0 || !any(equal)) return;
        for (int j = 0; j < 8; ++j)
          if (equal[j] != 0 && --n == 0) found = i + j;
      });
    }
    return found;
  }

  std::uint64_t weight_of_value(float x) const {
    I32x8 high, low;
    split(probability(all<F32x8>(x)), high, low);
    return weight_of(high[0], low[0]);
  }

  /// f(key, weight or 1) for the positive entries before `end` that are at least `least`.
  template <bool kMass, class F>
  void visit(Place end, float least, F f) const {
    const F32x8 bound = all<F32x8>(end.value > least ? end.value : least),
                floor = all<F32x8>(entries_.absent);
    for (std::int64_t b = 0; b < blocks_; ++b) {
      if (!any(s_.maxima[b] >= bound)) continue;
      entries_.each(b * block_, end_of(b), [&](std::int64_t i, F32x8 x) {
        const Mask8 wanted = before8(i, x, end) & (x > floor) & (x >= bound);
        if (!any(wanted)) return;
        I32x8 high{}, low{};
        if constexpr (kMass) split(probability(x), high, low);
        for (int j = 0; j < 8; ++j)
          if (wanted[j] != 0) f(order_key(x[j]), kMass ? weight_of(high[j], low[j]) : 1);
      });
    }
  }

  Scratch& s_;
  Entries<T> entries_;
  std::int64_t block_, blocks_;
  SamplingRule rule_{};
  WeightScale scale_{};
  float max_ = 0.0f, least_probability_ = 0.0f;
  bool numbers_ = false;
};

template <bool kLogits>
void sample(const SamplingArgs& a) {
  for_float_kind(a.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    auto body = [&](std::int64_t begin, std::int64_t end) {
      Scratch scratch;
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t row = a.indices.data != nullptr ? read_integer(a.indices, b) : b;
        std::int64_t token = -1;
        if (row < 0 || row >= a.num_rows) {
          raise_fault(a.bad_index, DeviceFault::kIndexOutOfRange, b, row);
        } else {
          const SamplingRule rule =
              sampling_rule(read_float(a.temperature, row, a.temperature_scalar),
                            a.top_k.data != nullptr ? read_integer(a.top_k, row) : a.top_k_scalar,
                            read_float(a.top_p, row, a.top_p_scalar),
                            read_float(a.min_p, row, a.min_p_scalar), a.vocab_size, a.top_k_first);
          const auto state = [&](const VectorView& v) {
            return v.data == nullptr ? 0 : static_cast<std::uint64_t>(read_integer(v, b));
          };
          token = Sampler<T, kLogits>(scratch, row_of<const T>(a.rows, row), a.vocab_size)
                      .run(rule, {state(a.seed), state(a.offset), state(a.subsequence)});
        }
        if (a.valid.data != nullptr) write_integer(a.valid, b, token >= 0 ? 1 : 0);
        write_integer(a.tokens, b, token >= 0 ? token : 0);
      }
    };
    cpu::parallel(a.num_outputs, 1 + 8192 / (a.vocab_size + 1), body);
  });
}

template <bool kLogits>
void renorm(const RenormArgs& a) {
  for_float_kind(a.dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    auto body = [&](std::int64_t begin, std::int64_t end) {
      Scratch scratch;
      for (std::int64_t r = begin; r < end; ++r)
        Sampler<T, kLogits>(scratch, row_of<const T>(a.rows, r), a.vocab_size)
            .filter(sampling_rule(1.0f, a.top_k.data != nullptr ? read_integer(a.top_k, r) : a.top_k_scalar,
                                  read_float(a.top_p, r, a.top_p_scalar), 0.0f, a.vocab_size, false),
                    row_of<T>(a.out, r));
    };
    cpu::parallel(a.num_rows, 1 + 8192 / (a.vocab_size + 1), body);
  });
}

}  // namespace

void top_k_renorm_probs(const RenormArgs& args, Stream) { renorm<false>(args); }
void top_p_renorm_probs(const RenormArgs& args, Stream) { renorm<false>(args); }
void top_k_mask_logits(const RenormArgs& args, Stream) { renorm<true>(args); }
void sampling_from_logits(const SamplingArgs& args, Stream) { sample<true>(args); }
void sampling_from_probs(const SamplingArgs& args, Stream) { sample<false>(args); }

}  // namespace musaic::MUSAIC_TARGET
