// A block a row. With a small top-k the row's first entries are found in one read; without one, candidates are drawn
// from the sums of segments and accepted by the mass before them.
#pragma once

#include "backends/backend.h"
#include "device/row_search.h"
#include "ops/sampling/args.h"
#include "ops/sampling/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

template <class T, bool kLogits>
class BlockSampler {
  static constexpr int kWeights = kKeysOfThread * kSearchThreads / 2;  // where they lie in s.keys

 public:
  MUSAIC_FN BlockSampler(SearchShared& shared, const T* row, std::int64_t size)
      : s_(shared), row_(shared, row, size) {}

  /// Writes the row with the entries that the rule drops as 0 (or -infinity), and the others as a share of the kept mass
  /// (or as they are).
  MUSAIC_FN void filter(const SamplingRule& rule, T* out) {
    const bool small_top_k = rule.top_k > 0 && rule.top_k <= search_threads();
    const bool has_guide = !kLogits && rule.top_k == 0 && has_top_p(rule);
    bool good = rule.valid;
    if (small_top_k)
      good = row_.template scan<true>(static_cast<int>(rule.top_k)) && good;
    else if (has_guide)
      good = row_.template scan<false, !kLogits>(0, skip_of(rule)) && good;
    else
      good = row_.template scan<false>(0) && good;
    std::uint64_t last = row_.end_key() + 1;
    if (kLogits || good) {
      if (small_top_k && static_cast<std::int64_t>(s_.count) == rule.top_k)
        last = least_key();
      else if (!small_top_k && rule.top_k > 0)
        last = row_.reach(false, static_cast<std::uint64_t>(rule.top_k), row_.end_key()).key;
    }
    const Measure kept = up_to(last, 0.0f);
    if constexpr (kLogits) {
      write(out,
            [&](int i, float x) { return row_.keeps(kept, i, x) || !(x == x) ? x : from_bits(0xff800000u); });
    } else {
      if (!good) {
        const float value =
            rule.valid && row_.is_numbers() && row_.max() == 0.0f ? 0.0f : from_bits(0x7fc00000u);
        write(out, [&](int, float) { return value; });
        return;
      }
      std::uint64_t mass = 0;
      if (rule.first_only) {
        last = place_key(row_.max(), row_.first_largest());
        mass = row_.weight(row_.max());
      } else if (has_guide) {
        mass = row_.row_mass();
        const std::uint64_t threshold = top_p_threshold(rule.top_p, mass);
        const ValueRange hint = row_.sum_guide(mass) ? row_.guide_range(threshold) : ValueRange{0, 0};
        const Reached reached = row_.reach(true, threshold, row_.end_key(), hint);
        last = reached.key;
        mass = reached.measure;
      } else if (small_top_k) {
        for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(s_.count); i += search_threads())
          mass += row_.weight(key_value(s_.keys[i]));
        mass = block_sum(s_, mass);
      } else {
        mass = row_.fill_segments(kept);
      }
      const Measure share_of = up_to(last, 0.0f);
      const float sum = mass_as_float(mass);
      write(out, [&](int i, float x) {
        const float q = row_.share(x);
        return row_.keeps(share_of, i, x) && q >= 9.09494702e-13f ? div(q, sum) : 0.0f;  // 2^-40
      });
    }
  }

  /// The token, or -1 for an invalid row; the same in all threads.
  MUSAIC_FN std::int64_t run(const SamplingRule& rule, const Draw& draw) {
    if (!rule.valid) return -1;
    const bool small_top_k = !rule.first_only && rule.top_k > 0 && rule.top_k <= search_threads();
    has_guide_ = !kLogits && rule.top_k == 0 && has_top_p(rule);
    bool good;
    if (small_top_k)
      good = row_.template scan<true>(static_cast<int>(rule.top_k));
    else if (has_guide_)
      good = row_.template scan<false, !kLogits>(0, skip_of(rule));
    else
      good = row_.template scan<false>(0);
    if (!good) return -1;
    row_.set_temperature(rule.inverse_temperature);
    least_ = kLogits ? rule.min_p : rule.min_p * row_.max();
    if (rule.first_only) return row_.first_largest();
    if (rule.top_k == 0) return draw_then_accept(rule, draw);
    return small_top_k ? draw_from_best(rule, draw) : draw_from_prefix(rule, draw);
  }

 private:
  static MUSAIC_FN bool has_top_p(const SamplingRule& rule) { return !rule.first_only && rule.top_p < 1.0f; }
  /// What the guide leaves out: together it is likely less than what lies behind the threshold.
  MUSAIC_FN float skip_of(const SamplingRule& rule) const {
    const float share = div(0.99f * (1.0f - rule.top_p), to_float(row_.size()));
    return share > 9.31322575e-10f ? share : 9.31322575e-10f;  // 2^-30, the guide's unit
  }

  /// Of s.keys.
  MUSAIC_FN std::uint64_t least_key() {
    std::uint64_t most = 0;
    for (int i = static_cast<int>(threadIdx.x); i < static_cast<int>(s_.count); i += search_threads())
      most = ~s_.keys[i] > most ? ~s_.keys[i] : most;
    return ~block_max(s_, most);
  }

  /// out[i] = f(i, entry); each thread writes what it has read.
  template <class F>
  MUSAIC_FN void write(T* out, F f) const {
    sync_block();  // others have read what is written here, if in place
    row_.each_vector([&](int i, const F32x8& x, bool is_full) {
      const F32x8 y = lanes([&](int j) { return f(i + j, x[j]); });
      if (is_full) {
        store8(out + i, y);
        return;
      }
      for (int j = 0; j < 8; ++j)
        if (i + j < row_.size()) store(out + i + j, y[j]);
    });
  }

  MUSAIC_FN std::int64_t draw_from_best(const SamplingRule& rule, const Draw& draw) {
    const std::uint64_t whole_mass = rule.top_p < 1.0f && !rule.top_k_first ? row_.row_mass() : 0;
    const auto n = static_cast<int>(s_.count);
    int size = 2;
    while (size < n) size *= 2;
    pad_keys(s_, n, size);
    sort_keys(s_.keys, size);
    // One entry a thread.
    const int i = static_cast<int>(threadIdx.x);
    const std::uint64_t key = i < n ? s_.keys[i] : 0;
    std::uint64_t w = i < n ? row_.weight(key_value(key)) : 0;
    if (rule.top_p < 1.0f) {
      const std::uint64_t up_to = block_prefix(s_, w);
      const std::uint64_t threshold =
          top_p_threshold(rule.top_p, rule.top_k_first ? block_max(s_, up_to) : whole_mass);
      w = up_to - w < threshold ? w : 0;
    }
    w = passes_min_p(rule, key) ? w : 0;
    const std::uint64_t point = draw.point(0, block_sum(s_, w));
    // In index order: the key's low half falls with the index. Weights go along in the upper half of s.keys.
    sync_shared();
    if (i < size) {
      s_.keys[i] = i < n ? (key << 32) | static_cast<std::uint32_t>(i) : 0;
      s_.keys[kWeights + i] = w;
    }
    sort_keys(s_.keys, size);
    const std::uint64_t at = i < n ? s_.keys[i] : 0;
    w = i < n ? s_.keys[kWeights + static_cast<int>(static_cast<std::uint32_t>(at))] : 0;
    const std::uint64_t up_to = block_prefix(s_, w);
    return key_index(block_max(s_, point >= up_to - w && point < up_to ? at >> 32 : 0));
  }

  MUSAIC_FN bool passes_min_p(const SamplingRule& rule, std::uint64_t key) const {
    if (rule.min_p <= 0.0f) return true;
    const float x = key_value(key);
    return row_.compared(x, row_.share(x)) >= least_;
  }

  MUSAIC_FN std::int64_t draw_from_prefix(const SamplingRule& rule, const Draw& draw) {
    const std::uint64_t end = row_.end_key();
    std::uint64_t last = row_.reach(false, static_cast<std::uint64_t>(rule.top_k), end).key;
    if (rule.top_p < 1.0f) {
      const std::uint64_t mass = row_.fill_segments(rule.top_k_first ? up_to(last, 0.0f) : Measure{});
      last = row_.reach(true, top_p_threshold(rule.top_p, mass), last - 1).key;
    }
    return draw_from(up_to(last, filter_least(rule)), draw, 0);
  }
  MUSAIC_FN float filter_least(const SamplingRule& rule) const { return rule.min_p > 0.0f ? least_ : 0.0f; }

  MUSAIC_FN std::int64_t draw_from(const Measure& filter, const Draw& draw, int j) {
    const std::uint64_t mass = row_.fill_segments(filter);
    return key_index(row_.locate(draw.point(j, mass), filter));
  }

  MUSAIC_FN std::int64_t draw_then_accept(const SamplingRule& rule, const Draw& draw) {
    const std::uint64_t mass = row_.row_mass();
    sync_shared();
    for (int first = 0; first < kCandidates; first += search_warps()) {  // one a warp
      const int j = first + search_warp();
      const std::uint64_t candidate = row_.locate(draw.point(j % kCandidates, mass), Measure{});
      if (search_lane() == 0 && j < kCandidates) s_.chosen[j] = candidate;
    }
    sync_shared();
    const bool cuts = rule.top_p < 1.0f;
    const std::uint64_t threshold = cuts ? top_p_threshold(rule.top_p, mass) : 0;
    bool asks_guide = false;
    if constexpr (!kLogits) asks_guide = has_guide_ && row_.sum_guide(mass);
    // What is known of top-p's cut: it lies after `accepted`, and `rejected` lies behind it.
    std::uint64_t accepted = ~std::uint64_t{0}, rejected = row_.end_key();
    for (int j = 0; j < kCandidates; ++j) {
      const std::uint64_t c = s_.chosen[j];
      if (cuts && c < accepted) {
        if (c <= rejected) continue;
        int is_kept = asks_guide ? row_.guide_says(key_value(c), threshold, skip_of(rule), mass) : -1;
        if (is_kept < 0) is_kept = row_.fill_segments(down_to(c)) < threshold ? 1 : 0;
        if (is_kept == 0) {
          rejected = c;
          continue;
        }
        accepted = c;
      }
      if (passes_min_p(rule, c)) return key_index(c);
    }
    const std::uint64_t last = cuts ? row_.reach(true, threshold, rejected).key : row_.end_key() + 1;
    return draw_from(up_to(last, filter_least(rule)), draw, kCandidates);
  }

  SearchShared& s_;
  RowSearch<T, kLogits> row_;
  float least_ = 0.0f;
  bool has_guide_ = false;
};

template <class T, bool kLogits>
__global__ void __launch_bounds__(kSearchThreads) sampling_kernel(const SamplingArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kSearchThreads);
  MUSAIC_SHARED(SearchShared, shared);
  for (std::int64_t b = blockIdx.x; b < a.num_outputs; b += gridDim.x) {
    const std::int64_t row = a.indices.data != nullptr ? read_integer(a.indices, b) : b;
    std::int64_t token = -1;
    if (row < 0 || row >= a.num_rows) {
      if (threadIdx.x == 0) raise_fault(a.bad_index, DeviceFault::kIndexOutOfRange, b, row);
    } else {
      const SamplingRule rule =
          sampling_rule(read_float(a.temperature, row, a.temperature_scalar),
                        a.top_k.data != nullptr ? read_integer(a.top_k, row) : a.top_k_scalar,
                        read_float(a.top_p, row, a.top_p_scalar), read_float(a.min_p, row, a.min_p_scalar),
                        a.vocab_size, a.top_k_first);
      const auto state = [&](const VectorView& v) {
        return v.data == nullptr ? 0 : static_cast<std::uint64_t>(read_integer(v, b));
      };
      token = BlockSampler<T, kLogits>(shared, row_of<const T>(a.rows, row), a.vocab_size)
                  .run(rule, {state(a.seed), state(a.offset), state(a.subsequence)});
    }
    if (threadIdx.x == 0) {
      if (a.valid.data != nullptr) write_integer(a.valid, b, token >= 0 ? 1 : 0);
      write_integer(a.tokens, b, token >= 0 ? token : 0);
    }
  }
}

template <class T, bool kLogits>
__global__ void __launch_bounds__(kSearchThreads) renorm_kernel(const RenormArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kSearchThreads);
  MUSAIC_SHARED(SearchShared, shared);
  for (std::int64_t r = blockIdx.x; r < a.num_rows; r += gridDim.x) {
    const SamplingRule rule =
        sampling_rule(1.0f, a.top_k.data != nullptr ? read_integer(a.top_k, r) : a.top_k_scalar,
                      read_float(a.top_p, r, a.top_p_scalar), 0.0f, a.vocab_size, false);
    BlockSampler<T, kLogits>(shared, row_of<const T>(a.rows, r), a.vocab_size)
        .filter(rule, row_of<T>(a.out, r));
  }
}

unsigned row_blocks(std::int64_t rows) { return static_cast<unsigned>(rows < 65535 ? rows : 65535); }
/// Any power of two of warps gives the same bits; more of them do the same work for each row's own part once more.
unsigned row_threads(std::int64_t vocab_size, std::int64_t top_k) {
  if (vocab_size <= 8192) return 128;
  return top_k > 512 && top_k <= kSearchThreads ? kSearchThreads : 512;
}

template <bool kLogits>
void renorm(const RenormArgs& a, Stream stream) {
  const unsigned blocks = row_blocks(a.num_rows);
  const unsigned threads = row_threads(a.vocab_size, a.top_k_scalar);
  if (a.dtype == FloatKind::kF32)
    MUSAIC_LAUNCH((renorm_kernel<float, kLogits>), blocks, threads, 0, stream, a);
  else if (a.dtype == FloatKind::kF16)
    MUSAIC_LAUNCH((renorm_kernel<Half, kLogits>), blocks, threads, 0, stream, a);
  else
    MUSAIC_LAUNCH((renorm_kernel<BFloat16, kLogits>), blocks, threads, 0, stream, a);
}

template <bool kLogits>
void sample(const SamplingArgs& a, Stream stream) {
  const unsigned blocks = row_blocks(a.num_outputs);
  const unsigned threads = row_threads(a.vocab_size, a.top_k_scalar);
  if (a.dtype == FloatKind::kF32)
    MUSAIC_LAUNCH((sampling_kernel<float, kLogits>), blocks, threads, 0, stream, a);
  else if (a.dtype == FloatKind::kF16)
    MUSAIC_LAUNCH((sampling_kernel<Half, kLogits>), blocks, threads, 0, stream, a);
  else
    MUSAIC_LAUNCH((sampling_kernel<BFloat16, kLogits>), blocks, threads, 0, stream, a);
}

}  // namespace

void top_k_renorm_probs(const RenormArgs& a, Stream stream) { renorm<false>(a, stream); }
void top_p_renorm_probs(const RenormArgs& a, Stream stream) { renorm<false>(a, stream); }
void top_k_mask_logits(const RenormArgs& a, Stream stream) { renorm<true>(a, stream); }
void sampling_from_logits(const SamplingArgs& a, Stream stream) { sample<true>(a, stream); }
void sampling_from_probs(const SamplingArgs& a, Stream stream) { sample<false>(a, stream); }

}  // namespace musaic::MUSAIC_TARGET
