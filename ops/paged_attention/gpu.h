// A block a tile of up to eight rows (queries times heads that share keys) and some of its splits: scores by keys,
// weights by rows, values by elements. With several parts a second kernel merges the splits.
#pragma once

#include "backends/backend.h"
#include "ops/paged_attention/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kAttentionThreads = 128;
inline constexpr int kSplitKeys = static_cast<int>(kAttentionSplit);
inline constexpr int kKeysPerThread = kSplitKeys / kAttentionThreads;
inline constexpr int kQueryDims = 256;  // of a query that lie in shared memory at once
inline constexpr int kValuesPerThread = 2;
inline constexpr int kValueDims = kAttentionThreads * kValuesPerThread;  // of a block
inline constexpr int kMostTileTokens = static_cast<int>(PagedAttentionGpuPlan::kTileRows);

MUSAIC_FN unsigned char* request_states(const PagedAttentionArgs& a) {
  return static_cast<unsigned char*>(a.workspace);
}
/// Maximum, sum of weights and sums of values of one split.
MUSAIC_FN float* partial_of(const PagedAttentionArgs& a, std::int64_t token, std::int64_t head,
                            std::int64_t split) {
  auto* first = reinterpret_cast<float*>(static_cast<char*>(a.workspace) + a.gpu_plan.state_bytes);
  return first + ((token * a.num_heads + head) * a.gpu_plan.max_splits + split) * (a.v_head_dim + 2);
}

/// A block a request.
__global__ void __launch_bounds__(kAttentionThreads) check_requests_kernel(const PagedAttentionArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kAttentionThreads);
  MUSAIC_SHARED(std::int64_t[kAttentionThreads / 32], first_bad);
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t i = blockIdx.x; i < a.num_requests; i += gridDim.x) {
    const Request r = request_at(a, i);
    const bool has_tokens = r.has_valid_tokens(a), has_length = r.has_valid_length(a);
    const Span pages = has_tokens && r.num_queries > 0 && has_length ? r.pages(a) : Span{0, 0};
    std::int64_t bad = pages.high;
    for (std::int64_t p = pages.low + thread; p < pages.high; p += kAttentionThreads) {
      const std::int64_t page = r.page(a, p);
      if ((page < 0 || page >= a.num_pages) && p < bad) bad = p;
    }
    for (int by = 1; by < 32; by *= 2) bad = least(bad, exchange_xor(bad, by));
    sync_shared();  // the request before is done
    if (thread % 32 == 0) first_bad[thread / 32] = bad;
    sync_shared();
    for (int w = 0; w < kAttentionThreads / 32; ++w) bad = least(bad, first_bad[w]);
    if (thread == 0) {
      RequestState state = kReady;
      if (!has_tokens) {
        // Where the request before ends out of range, this one begins so: one of the two complains.
        if (i == 0 || (r.first_token >= 0 && r.first_token <= a.num_tokens))
          raise_fault(a.starts_fault, DeviceFault::kIndexOutOfRange, i, r.first_token + r.num_queries);
        state = kSkip;
      } else if (r.num_queries == 0) {
        state = kSkip;
      } else if (!has_length) {
        raise_fault(a.length_fault, DeviceFault::kIndexOutOfRange, i, r.length);
        state = kBad;
      } else if (bad < pages.high) {
        raise_fault(a.page_fault, DeviceFault::kIndexOutOfRange, i, r.page(a, bad));
        state = kBad;
      }
      request_states(a)[i] = state;
    }
  }
}

/// The requests that own `count` tokens from the first one on, -1 for none; the last one where they overlap.
MUSAIC_FN void find_owners(const PagedAttentionArgs& a, std::int64_t first, int count, std::int32_t* owner) {
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < count)
    owner[thread] = a.query_starts == nullptr ? static_cast<std::int32_t>(first) + thread : -1;
  sync_shared();
  if (a.query_starts != nullptr)
    for (std::int64_t i = thread; i < a.num_requests; i += kAttentionThreads) {
      const std::int64_t begin = a.query_starts[i], end = a.query_starts[i + 1];
      if (begin < 0 || end > a.num_tokens) continue;
      for (std::int64_t t = most(begin, first); t < least(end, first + count); ++t)
        atomicMax(owner + (t - first), static_cast<std::int32_t>(i));
    }
  sync_shared();
}

MUSAIC_FN void store_out(const PagedAttentionArgs& a, std::int64_t token, std::int64_t head, std::int64_t d,
                         float v) {
  const std::int64_t at = token * a.out_token_stride + head * a.out_head_stride + d;
  if (a.dtype == FloatKind::kF32) store(static_cast<float*>(a.out) + at, v);
  if (a.dtype == FloatKind::kF16) store(static_cast<Half*>(a.out) + at, v);
  if (a.dtype == FloatKind::kBF16) store(static_cast<BFloat16*>(a.out) + at, v);
}
MUSAIC_FN void store_lse(const PagedAttentionArgs& a, std::int64_t token, std::int64_t head, float v) {
  if (a.lse != nullptr) store(a.lse + token * a.lse_token_stride + head * a.lse_head_stride, v);
}

struct AttentionRow {
  std::int64_t low, high;  // what it sees of its request
  float maximum, weight;   // of the splits so far
  float part_maximum, part_weight;
  std::int32_t part_low, part_high;  // what it sees of a split, and takes values of
  Merge merge;
};

template <int kRows>
struct AttentionShared {
  alignas(16) float scores[kSplitKeys][kRows];  // then the weights
  alignas(16) float queries[kRows][kQueryDims];
  std::int64_t k_offset[kSplitKeys], v_offset[kSplitKeys];
  AttentionRow row[kRows];
  std::int32_t owner[kMostTileTokens];
};

/// Some tokens times some query heads of a kv head, and the elements of values that the block computes.
struct AttentionTile {
  std::int64_t first_token, kv_head, first_head, first_value;
  int num_tokens, num_heads;

  MUSAIC_FN int rows() const { return num_tokens * num_heads; }
  MUSAIC_FN std::int64_t token(int row) const { return first_token + row / num_heads; }
  MUSAIC_FN std::int64_t head(int row) const { return first_head + row % num_heads; }
};

/// Elements [first, first + kQueryDims) of the rows' queries as float32; zeros where there are none.
template <int kRows>
MUSAIC_FN void load_queries(const PagedAttentionArgs& a, const AttentionTile& t, std::int64_t first,
                            AttentionShared<kRows>& s) {
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kQueryDims; i += kAttentionThreads) {
    const int row = i / kQueryDims;
    const std::int64_t d = first + i % kQueryDims;
    float q = 0.0f;
    if (row < t.rows() && d < a.k_head_dim) {
      const std::int64_t at = t.token(row) * a.query_token_stride + t.head(row) * a.query_head_stride + d;
      if (a.dtype == FloatKind::kF32) q = load(static_cast<const float*>(a.query)[at]);
      if (a.dtype == FloatKind::kF16) q = load(static_cast<const Half*>(a.query)[at]);
      if (a.dtype == FloatKind::kBF16) q = load(static_cast<const BFloat16*>(a.query)[at]);
    }
    s.queries[row][i % kQueryDims] = q;
  }
}

/// load8 of memory that is known to be aligned.
MUSAIC_FN F32x8 query8(const float* p) {
  const float4 a = reinterpret_cast<const float4*>(p)[0], b = reinterpret_cast<const float4*>(p)[1];
  return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}};
}

/// Scores of the keys [seen.low, seen.high) of a split for four rows from `row` on; a thread has keys of its own.
template <class T, int kRows>
MUSAIC_FN void score_keys(const PagedAttentionArgs& a, const AttentionTile& t, Span seen, int row,
                          AttentionShared<kRows>& s) {
  const T* keys = static_cast<const T*>(a.k_cache) + t.kv_head * a.k_head_stride;
  const bool loaded = a.k_head_dim <= kQueryDims;
  F32x8 sums[kKeysPerThread][4];
#pragma unroll
  for (int i = 0; i < kKeysPerThread; ++i)
#pragma unroll
    for (int r = 0; r < 4; ++r) sums[i][r] = splat(F32x8{}, 0.0f);
  for (std::int64_t first = 0; first < a.k_head_dim; first += kQueryDims) {
    if (!loaded) {
      sync_shared();
      load_queries(a, t, first, s);
      sync_shared();
    }
    const std::int64_t dims = least(kQueryDims, a.k_head_dim - first);
#pragma unroll
    for (int i = 0; i < kKeysPerThread; ++i) {
      const int j = static_cast<int>(threadIdx.x) + i * kAttentionThreads;
      if (j < seen.low || j >= seen.high) continue;
      const T* key = keys + s.k_offset[j] + first;
      const auto add = [&](auto c) {
        const F32x8 k = c.load(key);
#pragma unroll
        for (int r = 0; r < 4; ++r) sums[i][r] = fma(query8(s.queries[row + r] + c.begin), k, sums[i][r]);
      };
      std::int64_t d = 0;
      for (; d + 8 <= dims; d += 8) add(FullChunk{d});
      if (d < dims) add(TailChunk{d, static_cast<int>(dims - d)});
    }
  }
#pragma unroll
  for (int i = 0; i < kKeysPerThread; ++i) {
    const int j = static_cast<int>(threadIdx.x) + i * kAttentionThreads;
    if (j < seen.low || j >= seen.high) continue;
#pragma unroll
    for (int r = 0; r < 4; ++r) s.scores[j][row + r] = capped(a, tree_sum(sums[i][r]) * a.scale);
  }
}

/// The scores [low, high) of a row become weights; those that it does not see weigh nothing. For a whole warp.
template <int kRows>
MUSAIC_FN void weigh(Span seen, int row, AttentionShared<kRows>& s) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  AttentionRow& r = s.row[row];
  float x[kSplitKeys / 32], maximum = minus_infinity();
  std::uint32_t has_nan = 0;
#pragma unroll
  for (int i = 0; i < kSplitKeys / 32; ++i) {
    const int j = lane + 32 * i;
    x[i] = j >= r.part_low && j < r.part_high ? s.scores[j][row] : minus_infinity();
    has_nan |= x[i] != x[i] ? 1u : 0u;
    maximum = select(maximum < x[i], x[i], maximum);
  }
  for (int by = 1; by < 32; by *= 2) {
    const float other = exchange_xor(maximum, by);
    maximum = select(maximum < other, other, maximum);
    has_nan |= exchange_xor(has_nan, by);
  }
  if (has_nan != 0) maximum = from_bits(0x7fc00000u);
  const bool nothing = maximum == minus_infinity();
#pragma unroll
  for (int i = 0; i < kSplitKeys / 32; ++i) {
    const int j = lane + 32 * i;
    if (j >= seen.low && j < seen.high) s.scores[j][row] = nothing ? 0.0f : exp(x[i] - maximum);
  }
  sync_shared();  // also: all lanes have read the span
  // Lane i of eight adds the weights of the positions i (mod 8); the other lanes do the same.
  float sum = 0.0f;
  for (std::int64_t j = lane % 8; j < seen.high; j += 8)
    if (j >= seen.low) sum += s.scores[j][row];
  for (int by = 1; by < 8; by *= 2) sum += exchange_xor(sum, by);
  if (lane == 0) {
    r.part_maximum = maximum;
    r.part_weight = nothing ? 0.0f : sum;
    if (nothing) r.part_low = r.part_high = 0;
    const Merge how = merge_of(r.maximum, maximum);
    r.merge = how;
    r.maximum = how.maximum;
    r.weight = how(r.weight, r.part_weight);
  }
}

/// The sums of weighted values of a split for the thread's elements, d of them in the head.
template <class T, int kRows>
MUSAIC_FN void add_values(const PagedAttentionArgs& a, const AttentionTile& t, Span seen,
                          const AttentionShared<kRows>& s, float (&part)[kRows][kValuesPerThread]) {
  const T* values = static_cast<const T*>(a.v_cache) + t.kv_head * a.v_head_stride;
  Span common = seen;
  int low[kRows], high[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    low[r] = s.row[r].part_low;
    high[r] = s.row[r].part_high;
    if (r < t.rows()) common = intersection(common, {low[r], high[r]});
  }
  if (common.empty()) common = {seen.high, seen.high};
#pragma unroll
  for (int i = 0; i < kValuesPerThread; ++i) {
    const std::int64_t d = t.first_value + static_cast<int>(threadIdx.x) + i * kAttentionThreads;
#pragma unroll
    for (int r = 0; r < kRows; ++r) part[r][i] = 0.0f;
    if (d >= a.v_head_dim) continue;
    const auto some = [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t j = from; j < to; ++j) {
        const float v = load(values[s.v_offset[j] + d]);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const float next = fma(s.scores[j][r], v, part[r][i]);
          part[r][i] = j >= low[r] && j < high[r] ? next : part[r][i];
        }
      }
    };
    some(seen.low, common.low);
    // Four values are on their way at a time.
    constexpr int kAhead = 4;
    std::int64_t j = common.low;
    for (; j + kAhead <= common.high; j += kAhead) {
      float v[kAhead];
#pragma unroll
      for (int n = 0; n < kAhead; ++n) v[n] = load(values[s.v_offset[j + n] + d]);
#pragma unroll
      for (int n = 0; n < kAhead; ++n)
#pragma unroll
        for (int r = 0; r < kRows; ++r) part[r][i] = fma(s.scores[j + n][r], v[n], part[r][i]);
    }
    some(j, seen.high);
  }
}

template <class T, int kRows>
__global__ void __launch_bounds__(kAttentionThreads)
    attention_kernel(const PagedAttentionArgs a, std::int64_t tile_tokens, std::int64_t value_chunks,
                     std::int64_t blocks) {
  MUSAIC_LAUNCH_BOUNDS(kAttentionThreads);
  MUSAIC_SHARED(AttentionShared<kRows>, s);
  const PagedAttentionGpuPlan& plan = a.gpu_plan;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32;
  const std::int64_t group = a.num_heads / a.num_kv_heads;
  for (std::int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    std::int64_t rest = block;
    const std::int64_t part = rest % plan.parts;
    rest /= plan.parts;
    AttentionTile t;
    t.first_value = rest % value_chunks * kValueDims;
    rest /= value_chunks;
    const std::int64_t chunk = rest % plan.head_chunks;
    rest /= plan.head_chunks;
    t.kv_head = rest % a.num_kv_heads;
    t.first_token = rest / a.num_kv_heads * tile_tokens;
    t.num_tokens = static_cast<int>(least(tile_tokens, a.num_tokens - t.first_token));
    t.first_head = t.kv_head * group + chunk * plan.tile_heads;
    t.num_heads = static_cast<int>(least(plan.tile_heads, group - chunk * plan.tile_heads));

    sync_shared();  // the tile before is done
    find_owners(a, t.first_token, t.num_tokens, s.owner);
    if (thread < kRows) {
      AttentionRow& r = s.row[thread];
      r.low = r.high = 0;
      r.maximum = minus_infinity();
      r.weight = 0.0f;
      const std::int32_t owner = thread < t.rows() ? s.owner[thread / t.num_heads] : -1;
      if (owner >= 0 && request_states(a)[owner] == kReady) {
        const Request q = request_at(a, owner);
        const Span span = q.visible(a, t.token(thread) - q.first_token);
        r.low = span.low;
        r.high = span.high;
      }
    }
    if (a.k_head_dim <= kQueryDims) load_queries(a, t, 0, s);
    sync_shared();

    float values[kRows][kValuesPerThread];
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int i = 0; i < kValuesPerThread; ++i) values[r][i] = 0.0f;

    // Tokens of one request after the other: they share keys.
    for (int first = 0, end; first < t.num_tokens; first = end) {
      const std::int32_t owner = s.owner[first];
      for (end = first + 1; end < t.num_tokens && s.owner[end] == owner;) ++end;
      Span all_seen{0, 0};
      for (int row = first * t.num_heads; row < end * t.num_heads; ++row) {
        const AttentionRow& r = s.row[row];
        if (r.low >= r.high) continue;
        all_seen = all_seen.empty() ? Span{r.low, r.high}
                                    : Span{least(all_seen.low, r.low), most(all_seen.high, r.high)};
      }
      if (all_seen.empty()) continue;
      const Request q = request_at(a, owner);
      // The first split of this part that is not below the first one seen.
      const std::int64_t first_split = all_seen.low / kSplitKeys;
      std::int64_t split = first_split + ((part - first_split) % plan.parts + plan.parts) % plan.parts;
      for (; split * kSplitKeys < all_seen.high; split += plan.parts) {
        const std::int64_t begin = split * kSplitKeys;
        const Span seen{most(all_seen.low - begin, 0), least(all_seen.high - begin, kSplitKeys)};
        sync_shared();  // the split before is done
        if (thread < kRows) {
          AttentionRow& r = s.row[thread];
          const bool is_active = thread >= first * t.num_heads && thread < end * t.num_heads;
          const Span mine = intersection({r.low - begin, r.high - begin}, {0, kSplitKeys});
          const bool none = !is_active || mine.empty();
          r.part_low = none ? 0 : static_cast<std::int32_t>(mine.low);
          r.part_high = none ? 0 : static_cast<std::int32_t>(mine.high);
        }
        for (int j = thread; j < kSplitKeys; j += kAttentionThreads) {
          if (j < seen.low || j >= seen.high) continue;
          const std::int64_t p = (begin + j) / a.page_size, slot = begin + j - p * a.page_size,
                             page = q.page(a, p);
          s.k_offset[j] = page * a.k_page_stride + slot * a.k_slot_stride;
          s.v_offset[j] = page * a.v_page_stride + slot * a.v_slot_stride;
        }
        sync_shared();
        for (int row = 0; row < kRows; row += 4)
          if (row < t.rows()) score_keys<T>(a, t, seen, row, s);
        sync_shared();
        for (int row = warp; row < kRows; row += kAttentionThreads / 32) weigh(seen, row, s);
        sync_shared();
        float sums[kRows][kValuesPerThread];
        add_values<T>(a, t, seen, s, sums);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          const AttentionRow& row = s.row[r];
          const bool is_kept = plan.parts > 1 && r < t.rows() && begin < row.high &&
                               begin + kSplitKeys > row.low && r >= first * t.num_heads &&
                               r < end * t.num_heads;
          float* to = is_kept ? partial_of(a, t.token(r), t.head(r), split) : nullptr;
          if (is_kept && thread == 0 && t.first_value == 0) {
            to[0] = row.part_maximum;
            to[1] = row.part_weight;
          }
#pragma unroll
          for (int i = 0; i < kValuesPerThread; ++i) {
            const std::int64_t d = t.first_value + thread + i * kAttentionThreads;
            if (is_kept && d < a.v_head_dim) to[2 + d] = sums[r][i];
            values[r][i] = row.merge(values[r][i], sums[r][i]);
          }
        }
      }
    }
    if (plan.parts > 1) continue;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (r >= t.rows()) continue;
      const std::int32_t owner = s.owner[r / t.num_heads];
      if (owner < 0 || request_states(a)[owner] == kSkip) continue;
      const AttentionRow& row = s.row[r];
      const bool nothing = row.maximum == minus_infinity();
#pragma unroll
      for (int i = 0; i < kValuesPerThread; ++i) {
        const std::int64_t d = t.first_value + thread + i * kAttentionThreads;
        if (d < a.v_head_dim)
          store_out(a, t.token(r), t.head(r), d, nothing ? 0.0f : div(values[r][i], row.weight));
      }
      if (thread == 0 && t.first_value == 0)
        store_lse(a, t.token(r), t.head(r), log_sum(row.maximum, row.weight));
    }
  }
}

/// A block a row: its splits from left to right.
__global__ void __launch_bounds__(kAttentionThreads) merge_splits_kernel(const PagedAttentionArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kAttentionThreads);
  MUSAIC_SHARED(std::int32_t[1], owner);
  for (std::int64_t row = blockIdx.x; row < a.num_tokens * a.num_heads; row += gridDim.x) {
    const std::int64_t token = row / a.num_heads, head = row % a.num_heads;
    sync_shared();  // the row before is done
    find_owners(a, token, 1, owner);
    if (owner[0] < 0 || request_states(a)[owner[0]] == kSkip) continue;
    const Request q = request_at(a, owner[0]);
    const Span seen = request_states(a)[q.index] == kReady ? q.visible(a, token - q.first_token) : Span{0, 0};
    for (std::int64_t d = threadIdx.x; d < most(a.v_head_dim, 1); d += kAttentionThreads) {
      float maximum = minus_infinity(), weight = 0.0f, value = 0.0f;
      for (std::int64_t split = seen.low / kSplitKeys; split * kSplitKeys < seen.high; ++split) {
        const float* part = partial_of(a, token, head, split);
        const Merge how = merge_of(maximum, part[0]);
        maximum = how.maximum;
        weight = how(weight, part[1]);
        if (d < a.v_head_dim) value = how(value, part[2 + d]);
      }
      const bool nothing = maximum == minus_infinity();
      if (d < a.v_head_dim) store_out(a, token, head, d, nothing ? 0.0f : div(value, weight));
      if (d == 0) store_lse(a, token, head, log_sum(maximum, weight));
    }
  }
}

// A compiler has dropped template kernels that only a launch instantiates.
#define MUSAIC_ATTENTION_KERNEL(T, rows)                                                                   \
  template __global__ void attention_kernel<T, rows>(const PagedAttentionArgs, std::int64_t, std::int64_t, \
                                                     std::int64_t);
MUSAIC_ATTENTION_KERNEL(float, 4)
MUSAIC_ATTENTION_KERNEL(float, 8)
MUSAIC_ATTENTION_KERNEL(Half, 4)
MUSAIC_ATTENTION_KERNEL(Half, 8)
MUSAIC_ATTENTION_KERNEL(BFloat16, 4)
MUSAIC_ATTENTION_KERNEL(BFloat16, 8)
#undef MUSAIC_ATTENTION_KERNEL

template <class T>
void attend(const PagedAttentionArgs& a, Stream stream) {
  const PagedAttentionGpuPlan& plan = a.gpu_plan;
  const std::int64_t tile_tokens =
      a.query_starts == nullptr ? 1 : PagedAttentionGpuPlan::kTileRows / plan.tile_heads;
  const std::int64_t value_chunks = a.v_head_dim > 0 ? (a.v_head_dim + kValueDims - 1) / kValueDims : 1;
  const std::int64_t blocks = (a.num_tokens + tile_tokens - 1) / tile_tokens * a.num_kv_heads *
                              plan.head_chunks * value_chunks * plan.parts;
  MUSAIC_LAUNCH(check_requests_kernel, blocks_for(a.num_requests, 1), kAttentionThreads, 0, stream, a);
  if (tile_tokens * plan.tile_heads <= 4)
    MUSAIC_LAUNCH((attention_kernel<T, 4>), blocks_for(blocks, 1), kAttentionThreads, 0, stream, a,
                  tile_tokens, value_chunks, blocks);
  else
    MUSAIC_LAUNCH((attention_kernel<T, 8>), blocks_for(blocks, 1), kAttentionThreads, 0, stream, a,
                  tile_tokens, value_chunks, blocks);
  if (plan.parts > 1)
    MUSAIC_LAUNCH(merge_splits_kernel, blocks_for(a.num_tokens * a.num_heads, 1), kAttentionThreads, 0,
                  stream, a);
}

}  // namespace

void paged_attention(const PagedAttentionArgs& a, Stream stream) {
  if (a.cache_dtype == FloatKind::kF32) return attend<float>(a, stream);
  if (a.cache_dtype == FloatKind::kF16) return attend<Half>(a, stream);
  attend<BFloat16>(a, stream);
}

}  // namespace musaic::MUSAIC_TARGET
