#include "backends/cpu/launch.h"
#include "ops/paged_attention/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

constexpr std::int64_t kSplit = kAttentionSplit;
constexpr std::int64_t kRows = PagedAttentionPlan::kTileRows;

RequestState check_request(const PagedAttentionArgs& a, const Request& r) {
  if (!r.has_valid_tokens(a)) {
    raise_fault(a.starts_fault, DeviceFault::kIndexOutOfRange, r.index, r.first_token + r.num_queries);
    return kSkip;
  }
  if (r.num_queries == 0) return kSkip;
  if (!r.has_valid_length(a)) {
    raise_fault(a.length_fault, DeviceFault::kIndexOutOfRange, r.index, r.length);
    return kBad;
  }
  const Span pages = r.pages(a);
  for (std::int64_t p = pages.low; p < pages.high; ++p) {
    const std::int64_t page = r.page(a, p);
    if (page < 0 || page >= a.num_pages) {
      raise_fault(a.page_fault, DeviceFault::kIndexOutOfRange, r.index, page);
      return kBad;
    }
  }
  return kReady;
}

/// Element offsets, page and slot added up, of the positions of a split; one outside `seen` has that of the
/// nearest one inside, so that whole vectors of positions can be read.
void find_offsets(const PagedAttentionArgs& a, const Request& r, std::int64_t split_begin, Span seen,
                  std::int64_t page_stride, std::int64_t slot_stride, std::int64_t* offsets) {
  const std::int32_t* table = a.page_table + r.index * a.table_request_stride;
  std::int64_t j = seen.low, page = j / a.page_size, slot = j % a.page_size;
  while (j < seen.high) {
    const std::int64_t base = table[page * a.table_page_stride] * page_stride + slot * slot_stride;
    const std::int64_t count = least(a.page_size - slot, seen.high - j);
    for (std::int64_t i = 0; i < count; ++i) offsets[j - split_begin + i] = base + i * slot_stride;
    j += count;
    slot = 0;
    ++page;
  }
  const std::int64_t low = seen.low - split_begin, high = seen.high - split_begin;
  for (j = low / 8 * 8; j < low; ++j) offsets[j] = offsets[low];
  for (j = high; j % 8 != 0; ++j) offsets[j] = offsets[high - 1];
}

/// Brings a row of n elements nearer while others are computed with.
template <class T>
MUSAIC_FN void prefetch_row(const T* row, std::int64_t n) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t i = 0; i < n; i += kLine) __builtin_prefetch(row + i);
}

/// Scaled products of Q queries with the keys of eight positions.
template <int Q, class T>
MUSAIC_FN void score8(const float* queries, std::int64_t query_stride, const T* keys,
                      const std::int64_t* offsets, std::int64_t dim, float scale, float* scores) {
  // Enough sums to hide the latency of fma; with Q queries and one key they fit 16 registers.
  constexpr int K = Q == 1 ? 8 : Q == 4 ? 2 : 4;
  constexpr int kSums = Q * K;
  for (int k0 = 0; k0 < 8; k0 += K) {
    const T* key[K];
    for (int k = 0; k < K; ++k) key[k] = keys + offsets[k0 + k];
    F32x8 sums[kSums];
    for (int i = 0; i < kSums; ++i) sums[i] = F32x8{};
    const auto add = [&](auto c) {
      F32x8 x[Q];
      for (int q = 0; q < Q; ++q) x[q] = load8(queries + q * query_stride + c.begin);
      for (int k = 0; k < K; ++k) {
        const F32x8 v = c.load(key[k]);
        for (int q = 0; q < Q; ++q) sums[q * K + k] = fma(x[q], v, sums[q * K + k]);
      }
    };
    std::int64_t d = 0;
    for (; d + 8 <= dim; d += 8) add(FullChunk{d});
    if (d < dim) add(TailChunk{d, static_cast<int>(dim - d)});
    for (int i = 0; i < kSums; i += 8) {
      // The last block of eight may repeat sums, whose totals are not used.
      F32x8 block[8];
      for (int n = 0; n < 8; ++n) block[n] = sums[i + n < kSums ? i + n : i];
      float totals[8];
      store8(totals, tree_sums8(block) * all<F32x8>(scale));
      for (int n = 0; n < 8 && i + n < kSums; n += K)
        std::memcpy(scores + (i + n) / K * kSplit + k0, totals + n, K * sizeof(float));
    }
  }
}

/// o += weights * values over [low, high) for Q rows and W vectors of their outputs; `o` and `values` begin
/// at the first of these vectors.
template <int Q, int W, class T, class Chunk>
MUSAIC_FN void add_values_chunk(const float* weights, const T* values, const std::int64_t* offsets,
                                std::int64_t low, std::int64_t high, Chunk c, float* o,
                                std::int64_t o_stride) {
  F32x8 sums[Q][W];
  for (int q = 0; q < Q; ++q)
    for (int w = 0; w < W; ++w) sums[q][w] = load8(o + q * o_stride + 8 * w);
  for (std::int64_t j = low; j < high; ++j) {
    const T* value = values + offsets[j];
    F32x8 p[Q];
    for (int q = 0; q < Q; ++q) p[q] = all<F32x8>(weights[q * kSplit + j]);
    for (int w = 0; w < W; ++w) {
      const F32x8 v = c.load(value + 8 * w);
      for (int q = 0; q < Q; ++q) sums[q][w] = fma(p[q], v, sums[q][w]);
    }
  }
  for (int q = 0; q < Q; ++q)
    for (int w = 0; w < W; ++w) store8(o + q * o_stride + 8 * w, sums[q][w]);
}

template <int Q, class T>
void add_values(const float* weights, const T* values, const std::int64_t* offsets, std::int64_t low,
                std::int64_t high, std::int64_t dim, float* o, std::int64_t o_stride) {
  constexpr int W = Q == 1 ? 8 : Q == 4 ? 2 : 4;
  std::int64_t d = 0;
  for (; d + 8 * W <= dim; d += 8 * W)
    add_values_chunk<Q, W>(weights, values + d, offsets, low, high, FullChunk{0}, o + d, o_stride);
  for (; d + 8 <= dim; d += 8)
    add_values_chunk<Q, 1>(weights, values + d, offsets, low, high, FullChunk{0}, o + d, o_stride);
  if (d < dim)
    add_values_chunk<Q, 1>(weights, values + d, offsets, low, high, TailChunk{0, static_cast<int>(dim - d)},
                           o + d, o_stride);
}

/// Calls f(std::integral_constant<int, Q>, first row) over rows in fours and one rest of one to three.
template <class F>
MUSAIC_FN void for_row_blocks(std::int64_t rows, F f) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) f(std::integral_constant<int, 4>(), r);
  if (rows - r == 3) f(std::integral_constant<int, 3>(), r);
  if (rows - r == 2) f(std::integral_constant<int, 2>(), r);
  if (rows - r == 1) f(std::integral_constant<int, 1>(), r);
}

/// A softmax in the making: maximum, sum of weights, sum of weighted values (v_padded floats).
struct State {
  float maximum, weight;
  float* values;
};

MUSAIC_FN void merge(State& a, const State& b, std::int64_t v_padded) {
  const Merge how = merge_of(a.maximum, b.maximum);
  a.maximum = how.maximum;
  a.weight = how(a.weight, b.weight);
  if (how.kind == Merge::kReplace)
    std::memcpy(a.values, b.values, static_cast<std::size_t>(v_padded) * sizeof(float));
  if (how.kind == Merge::kAdd)
    for (std::int64_t d = 0; d < v_padded; d += 8)
      store8(a.values + d,
             fma(load8(a.values + d), all<F32x8>(how.keep), load8(b.values + d) * all<F32x8>(how.add)));
}

void write_row(const PagedAttentionArgs& a, std::int64_t token, std::int64_t head, const State& s) {
  const bool nothing = s.maximum == minus_infinity();
  for_float_kind(a.dtype, [&](auto* t) {
    auto* out = static_cast<decltype(t)>(a.out) + token * a.out_token_stride + head * a.out_head_stride;
    RowGroup group;
    group.each(a.v_head_dim, [&](auto c) {
      c.store(out, nothing ? F32x8{} : div(load8(s.values + c.begin), all<F32x8>(s.weight)));
    });
  });
  if (a.lse != nullptr)
    store(a.lse + token * a.lse_token_stride + head * a.lse_head_stride, log_sum(s.maximum, s.weight));
}

/// Queries of one request that are done together, times query heads of one key and value head.
struct Tile {
  Request request;
  std::int64_t first_query, num_queries, kv_head, first_head, num_heads;

  std::int64_t rows() const { return num_queries * num_heads; }
  std::int64_t token(std::int64_t row) const { return request.first_token + first_query + row / num_heads; }
  std::int64_t head(std::int64_t row) const { return first_head + row % num_heads; }
  Span visible(const PagedAttentionArgs& a, std::int64_t row) const {
    return request.visible(a, first_query + row / num_heads);
  }
  Span visible_to_any(const PagedAttentionArgs& a) const {
    // Of queries in order, the first that has a position sees the furthest back and the last the furthest on.
    const std::int64_t none = most(0, request.num_queries - request.length - first_query);
    if (none >= num_queries) return {0, 0};
    return {request.visible(a, first_query + none).low,
            request.visible(a, first_query + num_queries - 1).high};
  }
};

/// One worker's part of the workspace.
struct Scratch {
  float* queries;  // [kRows, k_padded]
  float* scores;   // [kRows, kSplit], then the weights
  float* values;   // [kRows, v_padded], of one split
  float* totals;   // [kRows, v_padded], of the splits so far
};

template <class T>
class Attention {
 public:
  explicit Attention(const PagedAttentionArgs& args) : a_(args) {
    char* at = static_cast<char*>(a_.workspace);
    states_ = reinterpret_cast<unsigned char*>(at);
    scratch_ = at + a_.plan.state_bytes;
    partials_ = reinterpret_cast<float*>(scratch_ + a_.plan.workers * a_.plan.scratch_bytes);
  }

  void run() {
    const std::int64_t work = survey();
    if (num_tiles_ == 0) return;
    // Some 10 us of work for a thread.
    constexpr std::int64_t kWorkPerThread = std::int64_t{1} << 18;
    const std::int64_t wanted = work / kWorkPerThread + 1;
    // Splits apart help only if there are not enough tiles; merging them costs a little.
    apart_ = a_.plan.splits_apart && wanted > 1 && tasks_apart_ > num_tiles_;
    const std::int64_t tasks = apart_ ? tasks_apart_ : num_tiles_;
    const std::int64_t workers = least(least(wanted, a_.plan.workers), tasks);
    auto body = [this](std::int64_t begin, std::int64_t end) {
      for (std::int64_t w = begin; w < end; ++w) work_as(w);
    };
    cpu::parallel(workers, 1, body);
    if (!apart_) return;
    auto rows = [this](std::int64_t begin, std::int64_t end) { merge_rows(begin, end); };
    cpu::parallel(a_.num_tokens * a_.num_heads, 16, rows);
  }

 private:
  std::int64_t query_tiles(const Request& r) const {
    return (r.num_queries + a_.plan.tile_queries - 1) / a_.plan.tile_queries;
  }
  std::int64_t tiles_of(const Request& r) const {
    return query_tiles(r) * a_.num_kv_heads * a_.plan.head_chunks;
  }

  /// The i-th tile of a request: kv heads outermost, so that a head's keys stay in the cache; late queries
  /// first, since they see more.
  Tile tile_at(const Request& r, std::int64_t i) const {
    const PagedAttentionPlan& p = a_.plan;
    Tile t;
    t.request = r;
    const std::int64_t query_tile = query_tiles(r) - 1 - i % query_tiles(r);
    i /= query_tiles(r);
    const std::int64_t chunk = i % p.head_chunks, group = a_.num_heads / a_.num_kv_heads;
    t.kv_head = i / p.head_chunks;
    t.first_query = query_tile * p.tile_queries;
    t.num_queries = least(p.tile_queries, r.num_queries - t.first_query);
    t.first_head = t.kv_head * group + chunk * p.tile_heads;
    t.num_heads = least(p.tile_heads, group - chunk * p.tile_heads);
    return t;
  }

  /// Splits that any row of the tile sees, as [low, high).
  Span splits_of(const Tile& t) const {
    const Span seen = t.visible_to_any(a_);
    if (seen.empty()) return {0, 0};
    return {seen.low / kSplit, (seen.high - 1) / kSplit + 1};
  }
  /// Tasks of a tile when splits go apart; an empty tile is one task that has nothing to do.
  std::int64_t tasks_of(const Tile& t) const { return most(1, splits_of(t).high - splits_of(t).low); }

  /// Checks the requests, writes the rows of the bad ones, counts tiles and tasks. Returns the
  /// multiplications.
  std::int64_t survey() {
    std::int64_t work = 0;
    for (std::int64_t i = 0; i < a_.num_requests; ++i) {
      const Request r = request_at(a_, i);
      const RequestState state = check_request(a_, r);
      states_[i] = state;
      if (state == kBad)
        for (std::int64_t q = 0; q < r.num_queries; ++q)
          for (std::int64_t h = 0; h < a_.num_heads; ++h)
            write_row(a_, r.first_token + q, h, State{minus_infinity(), 0.0f, nullptr});
      if (state != kReady) continue;
      num_tiles_ += tiles_of(r);
      if (a_.plan.splits_apart)
        for (std::int64_t t = 0; t < tiles_of(r); ++t) tasks_apart_ += tasks_of(tile_at(r, t));
      const std::int64_t keys = a_.window > 0 ? least(r.length, a_.window + r.num_queries) : r.length;
      work += r.num_queries * a_.num_heads * keys * (a_.k_head_dim + a_.v_head_dim + 32);
    }
    return work;
  }

  /// Takes tasks until there are none. Task numbers rise, so request and tile are found by walking on.
  void work_as(std::int64_t worker) {
    const PagedAttentionPlan& p = a_.plan;
    auto* at = reinterpret_cast<float*>(scratch_ + worker * p.scratch_bytes);
    Scratch s;
    s.queries = at;
    s.scores = s.queries + kRows * p.k_padded;
    s.values = s.scores + kRows * kSplit;
    s.totals = s.values + kRows * p.v_padded;
    std::int64_t first_task = 0, request = 0, tile = 0;
    const std::int64_t tasks = apart_ ? tasks_apart_ : num_tiles_;
    for (;;) {
      const std::int64_t task = __atomic_fetch_add(&next_task_, 1, __ATOMIC_RELAXED);
      if (task >= tasks) return;
      for (;; ++request, tile = 0) {
        if (states_[request] != kReady) continue;
        const Request r = request_at(a_, request);
        const std::int64_t tiles = tiles_of(r);
        if (apart_) {
          std::int64_t count = 0;
          while (tile < tiles && first_task + (count = tasks_of(tile_at(r, tile))) <= task) {
            first_task += count;
            ++tile;
          }
          if (tile == tiles) continue;
          run_split(tile_at(r, tile), task - first_task, s);
        } else {
          if (first_task + tiles <= task) {
            first_task += tiles;
            continue;
          }
          run_tile(tile_at(r, task - first_task), s);
        }
        break;
      }
    }
  }

  void load_queries(const Tile& t, const Scratch& s) const {
    for_float_kind(a_.dtype, [&](auto* type) {
      for (std::int64_t row = 0; row < t.rows(); ++row) {
        const auto* q = static_cast<const std::remove_pointer_t<decltype(type)>*>(a_.query) +
                        t.token(row) * a_.query_token_stride + t.head(row) * a_.query_head_stride;
        float* to = s.queries + row * a_.plan.k_padded;
        RowGroup group;
        group.each(a_.k_head_dim, [&](auto c) { store8(to + c.begin, c.load(q)); });
      }
    });
  }

  /// All splits of a tile, one after the other.
  void run_tile(const Tile& t, const Scratch& s) const {
    load_queries(t, s);
    State totals[kRows], parts[kRows];
    for (std::int64_t row = 0; row < t.rows(); ++row) {
      totals[row] = {minus_infinity(), 0.0f, s.totals + row * a_.plan.v_padded};
      parts[row].values = s.values + row * a_.plan.v_padded;
    }
    const Span splits = splits_of(t);
    for (std::int64_t split = splits.low; split < splits.high; ++split) {
      reduce_split(t, split, s, parts);
      for (std::int64_t row = 0; row < t.rows(); ++row) merge(totals[row], parts[row], a_.plan.v_padded);
    }
    for (std::int64_t row = 0; row < t.rows(); ++row) write_row(a_, t.token(row), t.head(row), totals[row]);
  }

  float* partial(std::int64_t token, std::int64_t head, std::int64_t split) const {
    return partials_ +
           ((token * a_.num_heads + head) * a_.plan.max_splits + split) * a_.plan.partial_floats();
  }

  /// One split of a tile, kept for merge_rows.
  void run_split(const Tile& t, std::int64_t index, const Scratch& s) const {
    const Span splits = splits_of(t);
    if (splits.empty()) return;
    load_queries(t, s);
    State parts[kRows];
    for (std::int64_t row = 0; row < t.rows(); ++row) parts[row].values = s.values + row * a_.plan.v_padded;
    reduce_split(t, splits.low + index, s, parts);
    for (std::int64_t row = 0; row < t.rows(); ++row) {
      float* to = partial(t.token(row), t.head(row), splits.low + index);
      std::memcpy(to, parts[row].values, static_cast<std::size_t>(a_.plan.v_padded) * sizeof(float));
      to[a_.plan.v_padded] = parts[row].maximum;
      to[a_.plan.v_padded + 1] = parts[row].weight;
    }
  }

  /// Rows (token, head) of all ready requests, from their partial states.
  void merge_rows(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = 0; i < a_.num_requests; ++i) {
      if (states_[i] != kReady) continue;
      const Request r = request_at(a_, i);
      const std::int64_t first = most(begin, r.first_token * a_.num_heads),
                         last = least(end, (r.first_token + r.num_queries) * a_.num_heads);
      for (std::int64_t row = first; row < last; ++row) {
        const std::int64_t token = row / a_.num_heads, head = row % a_.num_heads;
        const Span seen = r.visible(a_, token - r.first_token);
        State total{minus_infinity(), 0.0f, nullptr};
        for (std::int64_t split = seen.low / kSplit; split * kSplit < seen.high; ++split) {
          float* part = partial(token, head, split);
          const State state{part[a_.plan.v_padded], part[a_.plan.v_padded + 1], part};
          if (total.values == nullptr)
            total = state;
          else
            merge(total, state, a_.plan.v_padded);
        }
        write_row(a_, token, head, total);
      }
    }
  }

  /// The softmax of one split for every row of the tile; the parts' values lie in s.values.
  void reduce_split(const Tile& t, std::int64_t split, const Scratch& s, State* parts) const {
    const std::int64_t begin = split * kSplit, rows = t.rows();
    const Span seen = intersection(t.visible_to_any(a_), {begin, begin + kSplit});
    std::int64_t k_offsets[kSplit], v_offsets[kSplit];
    find_offsets(a_, t.request, begin, seen, a_.k_page_stride, a_.k_slot_stride, k_offsets);
    const std::int64_t* v_at = k_offsets;
    if (a_.v_page_stride != a_.k_page_stride || a_.v_slot_stride != a_.k_slot_stride) {
      find_offsets(a_, t.request, begin, seen, a_.v_page_stride, a_.v_slot_stride, v_offsets);
      v_at = v_offsets;
    }
    const std::int64_t low = (seen.low - begin) / 8 * 8, high = (seen.high - begin + 7) / 8 * 8;

    const T* keys = static_cast<const T*>(a_.k_cache) + t.kv_head * a_.k_head_stride;
    const std::int64_t k_padded = a_.plan.k_padded;
    const T* values = static_cast<const T*>(a_.v_cache) + t.kv_head * a_.v_head_stride;
    // Blocks of keys outermost, so that a block is in the nearest cache for all rows. Its values and the keys
    // of the next block are fetched meanwhile: rows of a page lie too far apart for the processor to foresee
    // them.
    constexpr std::int64_t kBlock = 32;
    for (std::int64_t block = low; block < high; block += kBlock) {
      for (std::int64_t j = block; j < least(block + kBlock, high); ++j)
        prefetch_row(values + v_at[j], a_.v_head_dim);
      for (std::int64_t j = block + kBlock; j < least(block + 2 * kBlock, high); ++j)
        prefetch_row(keys + k_offsets[j], a_.k_head_dim);
      for_row_blocks(rows, [&](auto count, std::int64_t row) {
        for (std::int64_t j = block; j < least(block + kBlock, high); j += 8)
          score8<count.value>(s.queries + row * k_padded, k_padded, keys, k_offsets + j, a_.k_head_dim,
                              a_.scale, s.scores + row * kSplit + j);
      });
    }

    Span spans[kRows];
    for (std::int64_t row = 0; row < rows; ++row) {
      const Span visible = intersection(t.visible(a_, row), {begin, begin + kSplit});
      spans[row] = {visible.low - begin, visible.high - begin};
      weigh(s.scores + row * kSplit, low, high, spans[row], parts[row]);
      if (parts[row].maximum == minus_infinity()) spans[row] = {0, 0};
      for (std::int64_t d = 0; d < a_.plan.v_padded; d += 8) store8(parts[row].values + d, F32x8{});
    }

    for_row_blocks(rows, [&](auto count, std::int64_t row) {
      constexpr int Q = count.value;
      // What all rows of the block see is read once for all; a row takes what only it sees before and after.
      Span common = spans[row];
      for (int q = 1; q < Q; ++q) common = intersection(common, spans[row + q]);
      const auto alone = [&](std::int64_t q, std::int64_t from, std::int64_t to) {
        if (from < to)
          add_values<1>(s.scores + (row + q) * kSplit, values, v_at, from, to, a_.v_head_dim,
                        parts[row + q].values, 0);
      };
      if (common.empty()) {
        for (int q = 0; q < Q; ++q) alone(q, spans[row + q].low, spans[row + q].high);
        return;
      }
      for (int q = 0; q < Q; ++q) alone(q, spans[row + q].low, common.low);
      add_values<Q>(s.scores + row * kSplit, values, v_at, common.low, common.high, a_.v_head_dim,
                    parts[row].values, a_.plan.v_padded);
      for (int q = 0; q < Q; ++q) alone(q, common.high, spans[row + q].high);
    });
  }

  /// Scores [low, high) become weights; sets maximum and weight. Positions that the row does not see weigh
  /// nothing.
  void weigh(float* scores, std::int64_t low, std::int64_t high, Span seen, State& part) const {
    F32x8 m = all<F32x8>(minus_infinity());
    Mask8 nan = {};
    const I32x8 first = splat(I32x8{}, static_cast<std::int32_t>(seen.low)),
                end = splat(I32x8{}, static_cast<std::int32_t>(seen.high));
    for (std::int64_t j = low; j < high; j += 8) {
      F32x8 x = load8(scores + j);
      if (a_.soft_cap > 0) x = all<F32x8>(a_.soft_cap) * tanh(div(x, all<F32x8>(a_.soft_cap)));
      const I32x8 position = lane_index() + splat(I32x8{}, static_cast<std::int32_t>(j));
      x = select((position >= first) & (position < end), x, all<F32x8>(minus_infinity()));
      nan |= x != x;
      m = select(m < x, x, m);
      store8(scores + j, x);
    }
    float maximum = m[0];
    for (int i = 1; i < 8; ++i) maximum = select(maximum < m[i], m[i], maximum);
    if (any(nan)) maximum = from_bits(0x7fc00000u);
    part.maximum = maximum;
    part.weight = 0.0f;
    if (maximum == minus_infinity()) return;
    F32x8 sum = {};
    for (std::int64_t j = low; j < high; j += 8) {
      const F32x8 p = exp(load8(scores + j) - all<F32x8>(maximum));
      sum = sum + p;
      store8(scores + j, p);
    }
    part.weight = tree_sum(sum);
  }

  const PagedAttentionArgs& a_;
  unsigned char* states_;
  char* scratch_;
  float* partials_;
  std::int64_t num_tiles_ = 0, tasks_apart_ = 0, next_task_ = 0;
  bool apart_ = false;
};

}  // namespace

void paged_attention(const PagedAttentionArgs& args, Stream) {
  for_float_kind(args.cache_dtype,
                 [&](auto* t) { Attention<std::remove_pointer_t<decltype(t)>>(args).run(); });
}

}  // namespace musaic::MUSAIC_TARGET
