#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/paged_attention/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Shape {
  std::int64_t heads, kv_heads, k_dim, v_dim;
};

struct Options {
  double scale = 0.125;
  std::int64_t window = 0;
  double soft_cap = 0.0;
  bool causal = true;
};

struct Span {
  std::int64_t low, high;
};

/// From the contract: what query i of n of a request with `length` keys sees.
Span visible(const Options& o, std::int64_t length, std::int64_t n, std::int64_t i) {
  const std::int64_t position = length - n + i;
  if (position < 0) return {0, 0};
  return {o.window > 0 ? std::max<std::int64_t>(0, position - o.window + 1) : 0,
          o.causal ? position + 1 : length};
}

Buffer integers(const std::vector<std::int64_t>& values) {
  Buffer b(kInt32, {static_cast<std::int64_t>(values.size())});
  b.fill([&](std::int64_t i) { return static_cast<double>(values[static_cast<std::size_t>(i)]); });
  return b;
}

/// Keys and values of one request, [position][kv head * dim].
struct Sequence {
  std::vector<std::vector<double>> keys, values;
  std::int64_t length() const { return static_cast<std::int64_t>(keys.size()); }
};

/// Normal numbers as `dtype` holds them.
Sequence random_sequence(const Shape& s, std::int64_t length, DType dtype) {
  Sequence q;
  for (std::int64_t p = 0; p < length; ++p) {
    std::vector<double> k(static_cast<std::size_t>(s.kv_heads * s.k_dim)),
        v(static_cast<std::size_t>(s.kv_heads * s.v_dim));
    for (double& x : k) x = round_to(dtype, normal());
    for (double& x : v) x = round_to(dtype, normal());
    q.keys.push_back(k);
    q.values.push_back(v);
  }
  return q;
}

/// A paged cache that holds sequences in shuffled pages. Slots without a position are NaN, entries of the
/// table without a page are out of range.
struct Cache {
  Buffer k, v, table;
  std::int64_t page_size;

  Cache(const Shape& s, DType dtype, const std::vector<Sequence>& sequences, std::int64_t page,
        bool gaps = false)
      : Cache(s, dtype, sequences, page, count_pages(sequences, page), gaps) {}

  void write(const Shape& s, std::int64_t request, std::int64_t position, const Sequence& q) {
    const auto page =
        static_cast<std::int64_t>(table.get(request * table.tensor().size(1) + position / page_size));
    const std::int64_t slot = page * page_size + position % page_size;
    const auto& key = q.keys[static_cast<std::size_t>(position)];
    const auto& value = q.values[static_cast<std::size_t>(position)];
    for (std::size_t i = 0; i < key.size(); ++i)
      k.set(slot * s.kv_heads * s.k_dim + static_cast<std::int64_t>(i), key[i]);
    for (std::size_t i = 0; i < value.size(); ++i)
      v.set(slot * s.kv_heads * s.v_dim + static_cast<std::int64_t>(i), value[i]);
  }

 private:
  static std::int64_t count_pages(const std::vector<Sequence>& sequences, std::int64_t page) {
    std::int64_t n = 3;
    for (const Sequence& q : sequences) n += (q.length() + page - 1) / page;
    return n;
  }
  static std::int64_t longest(const std::vector<Sequence>& sequences, std::int64_t page) {
    std::int64_t n = 1;
    for (const Sequence& q : sequences) n = std::max(n, (q.length() + page - 1) / page);
    return n + 1;
  }
  static std::vector<std::int64_t> strides(const Shape& s, std::int64_t dim, std::int64_t page, bool gaps) {
    if (!gaps) return {};
    const std::int64_t slot = dim + uniform_int(0, 9), head = page * slot + uniform_int(0, 5);
    return {s.kv_heads * head + uniform_int(0, 3), slot, head, 1};
  }

  Cache(const Shape& s, DType dtype, const std::vector<Sequence>& sequences, std::int64_t page,
        std::int64_t pages, bool gaps)
      : k(dtype, {pages, page, s.kv_heads, s.k_dim}, gaps ? uniform_int(0, 7) : 0,
          strides(s, s.k_dim, page, gaps)),
        v(dtype, {pages, page, s.kv_heads, s.v_dim}, gaps ? uniform_int(0, 7) : 0,
          strides(s, s.v_dim, page, gaps)),
        table(kInt32, {static_cast<std::int64_t>(sequences.size()), longest(sequences, page)}, 0,
              gaps ? std::vector<std::int64_t>{2 * longest(sequences, page) + 1, 2}
                   : std::vector<std::int64_t>{}),
        page_size(page) {
    std::vector<std::int64_t> free(static_cast<std::size_t>(pages));
    std::iota(free.begin(), free.end(), 0);
    std::shuffle(free.begin(), free.end(), rng());
    table.fill([&](std::int64_t i) { return i % 2 == 0 ? -5.0 : 2e9; });
    for (std::size_t r = 0; r < sequences.size(); ++r)
      for (std::int64_t p = 0; p < sequences[r].length(); ++p) {
        if (p % page == 0) {
          table.set(static_cast<std::int64_t>(r) * table.tensor().size(1) + p / page,
                    static_cast<double>(free.back()));
          free.pop_back();
        }
        write(s, static_cast<std::int64_t>(r), p, sequences[r]);
      }
  }
};

/// The call, with a workspace of exactly the size that it asks for.
void attend(Buffer& out, const Tensor& lse, const Tensor& query, const Cache& cache, const Tensor& lengths,
            const Tensor& starts, const Options& o) {
  Buffer scratch(kUInt8, {paged_attention_workspace_bytes(query, cache.k, cache.v, cache.table)});
  paged_attention(out, lse, query, cache.k, cache.v, cache.table, lengths, starts, o.scale, o.window,
                  o.soft_cap, o.causal, {}, Workspace{scratch.tensor().data(), scratch.numel()});
  scratch.expect_guards_intact("workspace");
  out.expect_guards_intact("out");
}

/// Checks the rows of a request's queries against float64, within the derived bound.
void expect_right(Buffer& out, Buffer& lse, Buffer& query, std::int64_t first_token, std::int64_t n,
                  const Shape& s, const Sequence& q, std::int64_t length, const Options& o,
                  const std::string& what) {
  const std::int64_t group = s.heads / s.kv_heads;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t row = (first_token + i) * s.heads + h;
      const Span span = visible(o, length, n, i);
      std::vector<double> x;
      for (std::int64_t d = 0; d < s.k_dim; ++d) x.push_back(query.get(row * s.k_dim + d));
      std::vector<const double*> keys, values;
      for (std::int64_t p = span.low; p < span.high; ++p) {
        keys.push_back(q.keys[static_cast<std::size_t>(p)].data() + h / group * s.k_dim);
        values.push_back(q.values[static_cast<std::size_t>(p)].data() + h / group * s.v_dim);
      }
      const reference::Attention e =
          reference::attention(x, keys, values, static_cast<float>(o.scale), static_cast<float>(o.soft_cap),
                               static_cast<std::size_t>(s.v_dim));
      const reference::AttentionError error = reference::attention_error(e, values, x.size(), o.soft_cap > 0);
      std::vector<double> got;
      for (std::int64_t d = 0; d < s.v_dim; ++d) got.push_back(out.get(row * s.v_dim + d));
      const std::string where = what + ", query " + std::to_string(i) + ", head " + std::to_string(h);
      expect_close(
          got, e.out,
          [&](std::int64_t d) {
            const auto at = static_cast<std::size_t>(d);
            return error.out[at] + epsilon(out.tensor().dtype()) * std::fabs(e.out[at]) * 1.05 +
                   smallest(out.tensor().dtype());
          },
          where);
      expect_close({lse.get(row)}, {e.lse}, [&](std::int64_t) { return error.lse; }, where + ", lse");
    }
}

std::string describe(const Shape& s, DType dtype, DType cache_dtype, std::int64_t page, const Options& o) {
  return to_string(dtype) + " over " + to_string(cache_dtype) + ", heads " + std::to_string(s.heads) + "/" +
         std::to_string(s.kv_heads) + ", dims " + std::to_string(s.k_dim) + "/" + std::to_string(s.v_dim) +
         ", page size " + std::to_string(page) + ", window " + std::to_string(o.window) + ", soft cap " +
         std::to_string(o.soft_cap) + (o.causal ? "" : ", not causal");
}

class PagedAttention : public OnTarget {};

TEST_P(PagedAttention, MatchesFloat64) {
  const std::int64_t dims[][2] = {{1, 1}, {7, 5}, {64, 64}, {80, 96}, {128, 128}, {192, 128}, {9, 200}};
  const std::int64_t pages[] = {1, 16, 64, 5, 300}, groups[] = {1, 3, 4, 8, 17};
  int turn = static_cast<int>(uniform_int(0, 1000));
  const std::vector<DType> types = float_types();
  const int num_types = static_cast<int>(types.size()), every = scaled(1, 9);
  for (const auto& dim : dims)
    for (std::int64_t group : groups) {
      if (++turn % every != 0) continue;
      const std::int64_t kv_heads = group > 4 ? 1 : uniform_int(1, 2);
      const Shape s{group * kv_heads, kv_heads, dim[0], dim[1]};
      const int pair = static_cast<int>(uniform_int(0, num_types * num_types - 1));
      const DType dtype = types[static_cast<std::size_t>(pair % num_types)],
                  cache_dtype = types[static_cast<std::size_t>(pair / num_types)];
      const std::int64_t page = pages[turn % 5];
      Options o;
      o.scale = uniform(0.5, 2.0) / std::sqrt(static_cast<double>(dim[0]));
      o.window = turn % 4 == 1 ? uniform_int(1, 300) : 0;
      o.soft_cap = turn % 5 == 2 ? uniform(0.5, 30.0) : 0.0;
      o.causal = turn % 7 != 3;
      const std::int64_t lengths[] = {uniform_int(250, scaled<std::int64_t>(600, 300)), 0, 1, 12, 257},
                         queries[] = {1, 3, 1, 12, 7};
      std::vector<Sequence> sequences;
      std::vector<std::int64_t> starts{0};
      for (std::size_t r = 0; r < 5; ++r) {
        sequences.push_back(random_sequence(s, lengths[r], cache_dtype));
        starts.push_back(starts.back() + queries[r]);
      }
      Cache cache(s, cache_dtype, sequences, page, turn % 2 == 0);
      const std::int64_t tokens = starts.back();
      Buffer query(dtype, {tokens, s.heads, s.k_dim}, uniform_int(0, 7),
                   {s.heads * s.k_dim + uniform_int(0, 40), s.k_dim, 1}),
          out(dtype, {tokens, s.heads, s.v_dim}, uniform_int(0, 7),
              {s.v_dim, tokens * s.v_dim + uniform_int(0, 3), 1}),
          lse(kFloat32, {tokens, s.heads}, 0, {1, tokens});
      query.fill_normal();
      attend(out, lse, query, cache, integers({lengths, lengths + 5}), integers(starts), o);
      EXPECT_NO_THROW(check(device()));
      lse.expect_guards_intact("lse");
      for (std::size_t r = 0; r < 5; ++r)
        expect_right(out, lse, query, starts[r], queries[r], s, sequences[r], lengths[r], o,
                     describe(s, dtype, cache_dtype, page, o) + ", request " + std::to_string(r));
    }
}

TEST_P(PagedAttention, DecodeOfEveryContextLength) {
  const Shape s{9, 3, 64, 64};
  std::vector<Sequence> sequences;
  const auto lengths = scaled<std::vector<std::int64_t>>(
      {1, 2, 7, 8, 9, 63, 64, 65, 255, 256, 257, 511, 512, 513, 1000}, {1, 9, 64, 256, 257, 600});
  for (std::int64_t length : lengths) sequences.push_back(random_sequence(s, length, kFloat16));
  for (std::int64_t page : scaled<std::vector<std::int64_t>>({1, 16}, {16})) {
    Cache cache(s, kFloat16, sequences, page);
    const auto n = static_cast<std::int64_t>(lengths.size());
    Buffer query(kFloat32, {n, 9, 64}), out(kFloat32, {n, 9, 64}), lse(kFloat32, {n, 9});
    query.fill_normal();
    attend(out, lse, query, cache, integers(lengths), Tensor(), {});
    for (std::size_t r = 0; r < lengths.size(); ++r)
      expect_right(out, lse, query, static_cast<std::int64_t>(r), 1, s, sequences[r], lengths[r], {},
                   "length " + std::to_string(lengths[r]));
  }
}

TEST_P(PagedAttention, PagesSharedByRequests) {
  MUSAIC_NEEDS(kBFloat16);
  const Shape s{4, 2, 16, 16};
  const std::vector<Sequence> sequences{random_sequence(s, 70, kBFloat16), Sequence(), Sequence()};
  Cache cache(s, kBFloat16, sequences, 16);
  for (std::int64_t i = 0; i < cache.table.tensor().size(1); ++i)
    for (std::int64_t r : {1, 2}) cache.table.set(r * cache.table.tensor().size(1) + i, cache.table.get(i));
  Buffer query(kBFloat16, {3, 4, 16}), out(kBFloat16, {3, 4, 16}), lse(kFloat32, {3, 4});
  query.fill_normal();
  const std::int64_t lengths[] = {70, 33, 70};
  attend(out, lse, query, cache, integers({70, 33, 70}), Tensor(), {});
  for (std::int64_t r = 0; r < 3; ++r)
    expect_right(out, lse, query, r, 1, s, sequences[0], lengths[r], {}, "request " + std::to_string(r));
}

TEST_P(PagedAttention, NothingToSee) {
  const Shape s{3, 1, 8, 8};
  Cache cache(s, kFloat32, {Sequence(), Sequence()}, 4);
  Buffer query(kFloat16, {2, 3, 8}), out(kFloat16, {2, 3, 8}), lse(kFloat32, {2, 3});
  query.fill_normal();
  attend(out, lse, query, cache, integers({0, 0}), Tensor(), {});
  for (double x : out.values()) EXPECT_EQ(x, 0.0);
  for (double x : lse.values()) EXPECT_EQ(x, -kInfinity);
  Buffer none(kFloat16, {0, 3, 8}), none_out(kFloat16, {0, 3, 8}), none_lse(kFloat32, {0, 3}),
      starts = integers({0, 0, 0});
  EXPECT_NO_THROW(attend(none_out, none_lse, none, cache, integers({4, 4}), starts, {}));
  Buffer no_table(kInt32, {0, 5}), no_lengths(kInt32, {0});
  EXPECT_NO_THROW(
      paged_attention(none_out, Tensor(), none, cache.k, cache.v, no_table, no_lengths, Tensor(), 1.0));
  EXPECT_NO_THROW(check(device()));
  // More queries than keys: the first ones stand before position 0.
  const Sequence two = random_sequence(s, 2, kFloat32);
  Cache small(s, kFloat32, {two}, 4);
  for (bool causal : {true, false}) {
    Options o;
    o.causal = causal;
    Buffer many(kFloat32, {5, 3, 8}), many_out(kFloat32, {5, 3, 8}), many_lse(kFloat32, {5, 3});
    many.fill_normal();
    attend(many_out, many_lse, many, small, integers({2}), integers({0, 5}), o);
    for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(many_lse.get(i), -kInfinity);
    for (std::int64_t i = 0; i < 72; ++i) EXPECT_EQ(many_out.get(i), 0.0);
    expect_right(many_out, many_lse, many, 0, 5, s, two, 2, o, "more queries than keys");
  }
}

// flashinfer-ai/flashinfer#4051, across a split: the parts (1, lse 0) and (3, lse ln 3) merge to (2.5, lse ln
// 4), and parts whose scores are all -infinity change nothing.
TEST_P(PagedAttention, MergesSplitsAndSkipsEmptyOnes) {
  const Shape s{1, 1, 1, 1};
  const double low = -std::numeric_limits<float>::max();
  Sequence q;
  for (int p = 0; p < 1300; ++p) {
    q.keys.push_back({p == 300 ? 0.0 : p == 1000 ? std::log(3.0) : low});
    q.values.push_back({p == 300 ? 1.0 : p == 1000 ? 3.0 : 1e30});
  }
  Cache cache(s, kFloat32, {q}, 16);
  for (double x : {1.0, 2.0}) {  // 2: the other scores are -infinity
    Buffer query(kFloat32, {1, 1, 1}), out(kFloat32, {1, 1, 1}), lse(kFloat32, {1, 1});
    query.set(0, x);
    Options o;
    o.scale = 1.0;
    attend(out, lse, query, cache, integers({1300}), Tensor(), o);
    EXPECT_NEAR(out.get(0), x == 1.0 ? 2.5 : 2.8, 1e-6);
    EXPECT_NEAR(lse.get(0), x == 1.0 ? 1.3862944 : std::log(10.0), 1e-6);
    attend(out, lse, query, cache, integers({200}), Tensor(), o);
    if (x == 2.0) {
      EXPECT_EQ(out.get(0), 0.0);
      EXPECT_EQ(lse.get(0), -kInfinity);
    }
  }
}

TEST_P(PagedAttention, LargeScoresAndInfinities) {
  const Shape s{1, 1, 8, 8};
  Sequence q = random_sequence(s, 600, kFloat32);
  q.keys[400].assign(8, 1e18);
  Cache cache(s, kFloat32, {q}, 16);
  Buffer query(kFloat32, {1, 1, 8}), out(kFloat32, {1, 1, 8}), lse(kFloat32, {1, 1});
  query.fill([](std::int64_t) { return 1e18; });
  Options o;
  o.scale = 1.0;
  attend(out, lse, query, cache, integers({600}), Tensor(), o);
  for (std::int64_t d = 0; d < 8; ++d)
    EXPECT_EQ(out.get(d), round_to(kFloat32, q.values[400][static_cast<std::size_t>(d)]));
  EXPECT_NEAR(lse.get(0) / 8e36, 1.0, 1e-6);
  query.fill([](std::int64_t) { return 1e30; });  // +infinity at 400 alone
  attend(out, lse, query, cache, integers({600}), Tensor(), o);
  EXPECT_TRUE(std::isnan(out.get(0)));
  EXPECT_TRUE(std::isnan(lse.get(0)));
  o.soft_cap = 50.0;
  attend(out, lse, query, cache, integers({600}), Tensor(), o);
  EXPECT_TRUE(std::isfinite(out.get(0)));
  EXPECT_LE(lse.get(0), 50.0 + std::log(600.0));
  query.fill([](std::int64_t) { return kNan; });  // no score is a number: not the same as nothing to see
  attend(out, lse, query, cache, integers({600}), Tensor(), o);
  EXPECT_TRUE(std::isnan(out.get(0)));
  EXPECT_TRUE(std::isnan(lse.get(0)));
}

TEST_P(PagedAttention, WhatAQueryDoesNotSeeHasNoEffect) {
  const Shape s{3, 1, 16, 16};
  // Some of these lie between the queries, and between the windows, of rows that are computed together.
  for (std::int64_t bad : scaled<std::vector<std::int64_t>>({0, 5, 276, 291, 296, 310, uniform_int(270, 319)},
                                                            {5, 291, uniform_int(270, 319)})) {
    const Sequence good = random_sequence(s, 320, kFloat16);
    Sequence poisoned = good;
    poisoned.keys[static_cast<std::size_t>(bad)].assign(16, kNan);
    poisoned.values[static_cast<std::size_t>(bad)].assign(16, kInfinity);
    for (std::int64_t window : {0, 20}) {
      Options o;
      o.window = window;
      Cache a(s, kFloat16, {good}, 16), b(s, kFloat16, {poisoned}, 16);
      Buffer query(kFloat32, {30, 3, 16}), x(kFloat32, {30, 3, 16}), y(kFloat32, {30, 3, 16}),
          lse(kFloat32, {30, 3});
      query.fill_normal();
      attend(x, lse, query, a, integers({320}), integers({0, 30}), o);
      attend(y, lse, query, b, integers({320}), integers({0, 30}), o);
      for (std::int64_t i = 0; i < x.numel(); ++i) {
        const Span span = visible(o, 320, 30, i / 48);
        if (span.low <= bad && bad < span.high)
          EXPECT_TRUE(std::isnan(y.get(i))) << i;
        else
          EXPECT_EQ(y.get(i), x.get(i)) << i;
      }
    }
  }
}

TEST_P(PagedAttention, PagesOutsideTheWindowMayBeGone) {
  const Shape s{2, 1, 24, 8};
  const Sequence q = random_sequence(s, 700, kFloat32);
  Cache cache(s, kFloat32, {q}, 16);
  Options o;
  o.window = 100;
  Buffer query(kFloat32, {4, 2, 24}), out(kFloat32, {4, 2, 8}), lse(kFloat32, {4, 2});
  query.fill_normal();
  for (std::int64_t p = 0; p < (697 - 100) / 16; ++p) cache.table.set(p, -1);
  attend(out, lse, query, cache, integers({700}), integers({0, 4}), o);
  EXPECT_NO_THROW(check(device()));
  expect_right(out, lse, query, 0, 4, s, q, 700, o, "freed pages");
}

TEST_P(PagedAttention, BadTablesAreReportedAndStayAlone) {
  const Shape s{2, 1, 8, 8};
  const std::vector<Sequence> sequences{random_sequence(s, 40, kFloat32), random_sequence(s, 600, kFloat32),
                                        random_sequence(s, 40, kFloat32)};
  Buffer query(kFloat32, {7, 2, 8});
  query.fill_normal();
  const auto expect_bad = [&](const Cache& cache, const std::vector<std::int64_t>& lengths,
                              const std::vector<std::int64_t>& starts, bool written,
                              const std::string& text) {
    Buffer out(kFloat32, {7, 2, 8}), lse(kFloat32, {7, 2});
    attend(out, lse, query, cache, integers(lengths), integers(starts), {});
    expect_error([] { check(device()); }, {text});
    for (std::int64_t i = 3 * 16; i < 5 * 16; ++i) {
      if (written)
        EXPECT_EQ(out.get(i), 0.0);
      else
        EXPECT_TRUE(std::isnan(out.get(i))) << "untouched";
    }
    for (std::int64_t i = 6; i < 10; ++i) {
      if (written)
        EXPECT_EQ(lse.get(i), -kInfinity);
      else
        EXPECT_TRUE(std::isnan(lse.get(i))) << "untouched";
    }
    expect_right(out, lse, query, 0, 3, s, sequences[0], 40, {}, "request before");
    if (starts[2] == 5) expect_right(out, lse, query, 5, 2, s, sequences[2], 40, {}, "request after");
  };
  for (double page : {-1.0, -2147483648.0, 2147483647.0}) {
    for (std::int64_t at : {0, 20, 37}) {
      Cache cache(s, kFloat32, sequences, 16);
      const std::int64_t width = cache.table.tensor().size(1);
      cache.table.set(width + at, page);
      expect_bad(cache, {40, 600, 40}, {0, 3, 5, 7}, true,
                 "paged_attention: page_table: " + std::to_string(static_cast<std::int64_t>(page)) + " at 1");
    }
  }
  Cache cache(s, kFloat32, sequences, 16);
  cache.table.set(cache.table.tensor().size(1) + 2, static_cast<double>(cache.k.tensor().size(0)));
  expect_bad(cache, {40, 600, 40}, {0, 3, 5, 7}, true, "paged_attention: page_table");
  Cache good(s, kFloat32, sequences, 16);
  expect_bad(good, {40, -3, 40}, {0, 3, 5, 7}, true, "paged_attention: seq_lens: -3 at 1");
  expect_bad(good, {40, 1 << 30, 40}, {0, 3, 5, 7}, true, "paged_attention: seq_lens: 1073741824 at 1");
  expect_bad(good, {40, 600, 40}, {0, 3, 1 << 30, 7}, false,
             "paged_attention: query_starts: 1073741824 at 1");
  expect_bad(good, {40, 600, 40}, {0, 3, 2, 2}, false, "paged_attention: query_starts: 2 at 1");
}

TEST_P(PagedAttention, TokensThatNoRequestOwnsAreNotWritten) {
  const Shape s{2, 2, 8, 8};
  const std::vector<Sequence> sequences{random_sequence(s, 10, kFloat32), random_sequence(s, 12, kFloat32)};
  Cache cache(s, kFloat32, sequences, 4);
  Buffer query(kFloat32, {8, 2, 8}), out(kFloat32, {8, 2, 8}), lse(kFloat32, {8, 2});
  query.fill_normal();
  attend(out, lse, query, cache, integers({10, 12}), integers({1, 3, 6}), {});
  EXPECT_NO_THROW(check(device()));
  for (std::int64_t token : {0, 6, 7}) {
    EXPECT_TRUE(std::isnan(out.get(token * 16 + 15)));
    EXPECT_TRUE(std::isnan(lse.get(token * 2 + 1)));
  }
  expect_right(out, lse, query, 1, 2, s, sequences[0], 10, {}, "request 0");
  expect_right(out, lse, query, 3, 3, s, sequences[1], 12, {}, "request 1");
}

MUSAIC_EVERY_TARGET(PagedAttention);

std::vector<unsigned char> both(Buffer& out, Buffer& lse) {
  std::vector<unsigned char> bytes = out.bytes();
  const std::vector<unsigned char> more = lse.bytes();
  bytes.insert(bytes.end(), more.begin(), more.end());
  return bytes;
}

TEST(PagedAttentionBits, SameOnEveryPathAndThreadCount) {
  const Shape shapes[] = {{9, 3, 64, 64}, {8, 1, 80, 100}, {3, 3, 33, 17}, {2, 1, 300, 270}};
  const Options options[] = {{}, {0.2, 300, 0.0, true}, {0.1, 0, 20.0, false}, {}};
  const std::int64_t turn = uniform_int(0, 2);
  for (std::size_t i = 0; i < 4; ++i) {
    const Shape& s = shapes[i];
    const Options& o = options[(i + static_cast<std::size_t>(turn)) % 4];
    // One long request, whose splits go apart on several threads, and several with many tiles.
    for (const std::vector<std::int64_t>& lengths :
         {std::vector<std::int64_t>{700}, std::vector<std::int64_t>{270, 17, 0, 40}}) {
      std::vector<Sequence> sequences;
      std::vector<std::int64_t> starts{0};
      for (std::int64_t length : lengths) {
        sequences.push_back(random_sequence(s, length, kFloat16));
        starts.push_back(starts.back() + (lengths.size() == 1 ? 2 : 9));
      }
      Cache cache(s, kFloat16, sequences, 16);
      Buffer query(kFloat32, {starts.back(), s.heads, s.k_dim}), length_tensor = integers(lengths),
                                                                 start_tensor = integers(starts);
      query.fill_normal();
      expect_same_bytes_everywhere([&] {
        Buffer out(kFloat32, {starts.back(), s.heads, s.v_dim}), lse(kFloat32, {starts.back(), s.heads});
        attend(out, lse, query, cache, length_tensor, start_tensor, o);
        return both(out, lse);
      });
    }
  }
}

/// Bytes of the rows [begin, end) of the first dimension.
std::vector<unsigned char> rows(Buffer& b, std::int64_t begin, std::int64_t end) {
  const std::vector<unsigned char> all = b.bytes();
  const auto row = static_cast<std::ptrdiff_t>(all.size()) / b.tensor().size(0);
  return {all.begin() + begin * row, all.begin() + end * row};
}

TEST(PagedAttentionBits, SameInEveryBatchAndPageSize) {
  const Shape s{6, 2, 40, 24};
  std::vector<Sequence> sequences;
  std::vector<std::int64_t> lengths;
  for (std::int64_t r = 0; r < 64; ++r) {
    lengths.push_back(r < 3 ? 256 * r + 200 : uniform_int(0, 90));
    sequences.push_back(random_sequence(s, lengths.back(), kBFloat16));
  }
  Buffer query(kBFloat16, {64, 6, 40});
  query.fill_normal();
  Cache cache(s, kBFloat16, sequences, 16);
  Buffer out(kBFloat16, {64, 6, 24}), lse(kFloat32, {64, 6});
  attend(out, lse, query, cache, integers(lengths), Tensor(), {});
  for (std::int64_t batch : {1, 7})
    for (std::int64_t page : {1, 13, 64}) {
      for (std::int64_t first = 0; first + batch <= 64; first += batch == 1 ? 3 : 7) {
        const auto begin = static_cast<std::ptrdiff_t>(first),
                   end = static_cast<std::ptrdiff_t>(first + batch);
        Cache part(s, kBFloat16, {sequences.begin() + begin, sequences.begin() + end}, page, page == 13);
        Buffer part_out(kBFloat16, {batch, 6, 24}), part_lse(kFloat32, {batch, 6});
        attend(part_out, part_lse, query.tensor().slice(0, first, first + batch), part,
               integers({lengths.begin() + begin, lengths.begin() + end}), Tensor(), {});
        ASSERT_EQ(rows(part_out, 0, batch), rows(out, first, first + batch)) << first << ", page " << page;
        ASSERT_EQ(rows(part_lse, 0, batch), rows(lse, first, first + batch)) << first << ", page " << page;
      }
    }
}

TEST(PagedAttentionBits, DecodeAndEveryChunkOfAPrefillAgree) {
  for (std::int64_t window : {0, 33, 270}) {
    const Shape s{3, 1, 64, 40};
    constexpr std::int64_t kLength = 540;
    const std::vector<Sequence> sequences{random_sequence(s, kLength, kFloat32)};
    Cache cache(s, kFloat32, sequences, 16);
    Buffer query(kFloat32, {kLength, 3, 64}), out(kFloat32, {kLength, 3, 40}), lse(kFloat32, {kLength, 3});
    query.fill_normal();
    Options o;
    o.window = window;
    attend(out, lse, query, cache, integers({kLength}), integers({0, kLength}), o);
    for (std::int64_t chunk : {1, 2, 7, 64, 129})
      for (std::int64_t end = kLength; end >= chunk; end -= chunk == 1 ? 41 : chunk + 50) {
        Buffer part(kFloat32, {chunk, 3, 40}), part_lse(kFloat32, {chunk, 3});
        attend(part, part_lse, query.tensor().slice(0, end - chunk, end), cache, integers({end}),
               integers({0, chunk}), o);
        ASSERT_EQ(rows(part, 0, chunk), rows(out, end - chunk, end)) << "chunk " << chunk << " up to " << end;
        ASSERT_EQ(rows(part_lse, 0, chunk), rows(lse, end - chunk, end))
            << "chunk " << chunk << " up to " << end;
      }
  }
}

// Splits that a window hides change no bits: with them cut off the sequence, the result is the same.
TEST(PagedAttentionBits, HiddenSplitsDoNotMatter) {
  const Shape s{4, 2, 16, 16};
  const Sequence whole = random_sequence(s, 1000, kFloat32);
  Sequence end;
  end.keys.assign(whole.keys.begin() + 512, whole.keys.end());
  end.values.assign(whole.values.begin() + 512, whole.values.end());
  Options o;
  o.window = 300;
  Buffer query(kFloat32, {20, 4, 16}), a(kFloat32, {20, 4, 16}), b(kFloat32, {20, 4, 16}),
      a_lse(kFloat32, {20, 4}), b_lse(kFloat32, {20, 4});
  query.fill_normal();
  attend(a, a_lse, query, Cache(s, kFloat32, {whole}, 16), integers({1000}), integers({0, 20}), o);
  attend(b, b_lse, query, Cache(s, kFloat32, {end}, 16), integers({488}), integers({0, 20}), o);
  EXPECT_EQ(both(a, a_lse), both(b, b_lse));
}

TEST(PagedAttentionBits, LseIsOptional) {
  const Shape s{4, 2, 16, 16};
  Cache cache(s, kFloat32, {random_sequence(s, 300, kFloat32)}, 16);
  Buffer query(kFloat32, {5, 4, 16}), a(kFloat32, {5, 4, 16}), b(kFloat32, {5, 4, 16}), lse(kFloat32, {5, 4});
  query.fill_normal();
  attend(a, lse, query, cache, integers({300}), integers({0, 5}), {});
  attend(b, Tensor(), query, cache, integers({300}), integers({0, 5}), {});
  EXPECT_EQ(a.bytes(), b.bytes());
}

TEST(PagedAttentionWorkspace, NeverShrinksWithTheBatch) {
  const Tensor k(static_cast<void*>(nullptr), kFloat16, {9, 16, 3, 64});
  const int threads = num_threads();
  for (int n : {1, 2, 3}) {
    set_num_threads(n);
    std::int64_t largest = 0, most_pages = 0;
    for (std::int64_t tokens = 0; tokens < 40; ++tokens) {
      const Tensor query(static_cast<void*>(nullptr), kFloat32, {tokens, 9, 64}),
          table(static_cast<void*>(nullptr), kInt32, {tokens, 100});
      const std::int64_t bytes = paged_attention_workspace_bytes(query, k, k, table);
      EXPECT_GE(bytes, largest) << tokens << " tokens";
      largest = bytes;
    }
    for (std::int64_t pages = 1; pages < 3000000; pages = pages * 3 / 2 + 1) {
      const Tensor query(static_cast<void*>(nullptr), kFloat32, {2, 9, 64}),
          table(static_cast<void*>(nullptr), kInt32, {2, pages});
      const std::int64_t bytes = paged_attention_workspace_bytes(query, k, k, table);
      EXPECT_GE(bytes, most_pages) << pages << " pages";
      most_pages = bytes;
    }
    EXPECT_LT(most_pages, std::int64_t{80} << 20);
  }
  set_num_threads(threads);
  expect_error([&] { paged_attention_workspace_bytes(k, k, k, k); },
               {"paged_attention_workspace_bytes: query: shape [9, 16, 3, 64]", "3 dimensions"});
}

TEST(PagedAttentionErrors, NameTheArgument) {
  Buffer query(kFloat16, {3, 6, 8}), out(kFloat16, {3, 6, 5}), lse(kFloat32, {3, 6}),
      k(kBFloat16, {4, 16, 2, 8}), v(kBFloat16, {4, 16, 2, 5}), table(kInt32, {3, 4}), lengths(kInt32, {3}),
      starts(kInt32, {4}), scratch(kUInt8, {1 << 20});
  table.fill([](std::int64_t) { return 0.0; });
  lengths.fill([](std::int64_t) { return 4.0; });
  struct Arguments {
    Tensor out, lse, query, k, v, table, lengths, starts;
    double scale = 1.0;
    std::int64_t window = 0;
    double soft_cap = 0.0;
    Workspace workspace;
  };
  const Arguments good{out,     lse,      query, k, v,   table,
                       lengths, Tensor(), 1.0,   0, 0.0, {scratch.tensor().data(), scratch.numel()}};
  const auto run = [](const Arguments& a) {
    paged_attention(a.out, a.lse, a.query, a.k, a.v, a.table, a.lengths, a.starts, a.scale, a.window,
                    a.soft_cap, true, {}, a.workspace);
  };
  const auto expect_bad = [&](const std::function<void(Arguments&)>& change,
                              const std::vector<std::string>& text) {
    Arguments a = good;
    change(a);
    expect_error([&] { run(a); }, text);
  };
  k.fill_normal();
  v.fill_normal();
  query.fill_normal();
  EXPECT_NO_THROW(run(good));

  Buffer f64(kFloat64, {3, 6, 8}), heads5(kFloat16, {3, 5, 8}), out5(kFloat16, {3, 5, 5}),
      dim7(kFloat16, {3, 6, 7}), out32(kFloat32, {3, 6, 5}), k_flat(kBFloat16, {64, 2, 8}),
      v_page(kBFloat16, {4, 8, 2, 5}), v16(kFloat16, {4, 16, 2, 5}), lse64(kFloat32, {6, 3}),
      table64(kInt64, {3, 4}), lengths4(kInt32, {4}), starts3(kInt32, {3}), table2(kInt32, {2, 4}),
      lengths2(kInt32, {2}), out_bad(kFloat16, {3, 6, 8});
  expect_bad([&](Arguments& a) { a.query = f64; },
             {"paged_attention: query: dtype float64", "float32, float16"});
  expect_bad([&](Arguments& a) { a.query = heads5, a.out = out5; },
             {"paged_attention: query: 5 heads", "a multiple of the caches' 2 heads"});
  expect_bad([&](Arguments& a) { a.query = dim7; },
             {"paged_attention: k_cache: shape [4, 16, 2, 8]", "k_head_dim=7", "from query"});
  expect_bad([&](Arguments& a) { a.out = out32; },
             {"paged_attention: out: dtype float32", "float16 (from query)"});
  expect_bad([&](Arguments& a) { a.out = out_bad; },
             {"paged_attention: out: shape [3, 6, 8]", "v_head_dim=5"});
  expect_bad([&](Arguments& a) { a.k = k_flat; },
             {"paged_attention: k_cache: shape [64, 2, 8]", "4 dimensions"});
  expect_bad([&](Arguments& a) { a.v = v_page; }, {"paged_attention: v_cache: shape", "page_size=16"});
  expect_bad([&](Arguments& a) { a.v = v16; },
             {"paged_attention: v_cache: dtype float16", "bfloat16 (from k_cache)"});
  expect_bad([&](Arguments& a) { a.lse = lse64; }, {"paged_attention: lse: shape [6, 3]", "num_tokens=3"});
  expect_bad([&](Arguments& a) { a.table = table64; }, {"paged_attention: page_table: dtype int64", "int32"});
  expect_bad([&](Arguments& a) { a.lengths = lengths4; },
             {"paged_attention: seq_lens: shape [4]", "num_requests=3"});
  expect_bad([&](Arguments& a) { a.starts = starts3; },
             {"paged_attention: query_starts: shape [3]", "num_requests+1=4"});
  expect_bad([&](Arguments& a) { a.table = table2, a.lengths = lengths2; },
             {"paged_attention: query: 3 tokens without query_starts", "one for each of the 2 requests"});
  expect_bad([&](Arguments& a) { a.lengths = Tensor(); }, {"paged_attention: seq_lens: no tensor"});
  expect_bad([&](Arguments& a) { a.scale = kNan; }, {"paged_attention: scale: nan", "a finite number"});
  expect_bad([&](Arguments& a) { a.window = -1; }, {"paged_attention: window: -1"});
  expect_bad([&](Arguments& a) { a.soft_cap = -2.0; }, {"paged_attention: soft_cap: -2"});
  expect_bad([&](Arguments& a) { a.soft_cap = 1e-60; }, {"paged_attention: soft_cap: 0"});
  expect_bad([&](Arguments& a) { a.workspace.bytes = 100; },
             {"paged_attention: workspace: 100 bytes", "paged_attention_workspace_bytes"});
  expect_bad([&](Arguments& a) { a.workspace = {}; }, {"paged_attention: workspace: 0 bytes"});
  expect_bad([&](Arguments& a) { a.workspace.data = scratch.tensor().data_as<char>() + 4; },
             {"paged_attention: workspace: an address 4 bytes off", "64 bytes"});
  expect_bad([&](Arguments& a) { a.out = Tensor(query.tensor().data(), kFloat16, {3, 6, 5}); },
             {"paged_attention: out: memory that overlaps query"});
  expect_bad(
      [&](Arguments& a) { a.k = Tensor(k.tensor().data(), kBFloat16, {4, 8, 2, 8}, {256, 32, 16, 2}); },
      {"paged_attention: k_cache: stride 2 in the last dimension"});
}

}  // namespace
}  // namespace musaic::testing
