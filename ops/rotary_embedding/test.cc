#include <cstring>
#include <limits>

#include "ops/rotary_embedding/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

/// fma rounds the other product once before, then itself; the result is rounded to the dtype.
double tolerance(double expected, double products, DType dtype) {
  const double u32 = epsilon(kFloat32);
  return (std::fabs(expected) * (epsilon(dtype) + u32) + products * u32) * 1.01 + smallest(dtype);
}

/// Expects `b` (heads of size d, `heads` of them a token in row-major order) to hold `before` rotated by the
/// cache's rows; a token whose row is negative to hold `before`.
void expect_rotated(Buffer& b, const std::vector<double>& before, const std::vector<std::int64_t>& rows,
                    Buffer& cache, std::int64_t d, bool is_neox, const std::string& what) {
  const std::int64_t heads = b.numel() / d / static_cast<std::int64_t>(rows.size());
  const std::vector<double> after = b.values(), table = cache.values();
  const std::int64_t r = cache.tensor().size(1);
  for (std::int64_t i = 0; i < b.numel() / d; ++i) {
    const std::int64_t row = rows[static_cast<std::size_t>(i / heads)];
    const std::vector<double> head(before.begin() + i * d, before.begin() + (i + 1) * d);
    const std::vector<double> cos_sin =
        row < 0 ? std::vector<double>()
                : std::vector<double>(table.begin() + row * r, table.begin() + (row + 1) * r);
    const std::vector<double> expected = reference::rotary_embedding(head, cos_sin, is_neox);
    expect_close(
        {after.begin() + i * d, after.begin() + (i + 1) * d}, expected,
        [&](std::int64_t e) {
          if (row < 0 || e >= r) return 0.0;
          double largest = 0;
          for (double v : head) largest = std::max(largest, std::fabs(v));
          return tolerance(expected[static_cast<std::size_t>(e)], 2 * largest, b.tensor().dtype());
        },
        what + " head " + std::to_string(i));
  }
  b.expect_guards_intact(what.c_str());
}

Buffer& fill_cache(Buffer& cache) {
  const std::int64_t r = cache.tensor().size(1);
  return cache.fill([&](std::int64_t i) {
    const auto angle =
        static_cast<double>(i / r) *
        std::pow(10000.0, -2.0 * static_cast<double>(i % r % (r / 2)) / static_cast<double>(r));
    return i % r < r / 2 ? std::cos(angle) : std::sin(angle);
  });
}

class RotaryEmbedding : public OnTarget {};

TEST_P(RotaryEmbedding, MatchesFloat64) {
  struct Case {
    std::int64_t d, r;
  };
  for (const Case& c :
       {Case{64, 64}, Case{128, 128}, Case{256, 128}, Case{80, 80}, Case{96, 96}, Case{112, 112},
        Case{192, 64}, Case{192, 192}, Case{7, 6}, Case{2, 2}, Case{33, 30}, Case{18, 18}, Case{5, 0}})
    for (DType dtype : float_types())
      for (DType cache_dtype : {dtype, kFloat32})
        for (bool is_neox : {true, false}) {
          const std::int64_t tokens = 5, max_position = 40;
          Buffer q(dtype, {tokens, 3 * c.d}, uniform_int(0, 7)),
              k(dtype, {tokens, 2, c.d}, uniform_int(0, 7)),
              cache(cache_dtype, {max_position, c.r}, uniform_int(0, 7)), positions(kInt64, {tokens});
          q.fill_normal();
          k.fill_normal();
          fill_cache(cache);
          std::vector<std::int64_t> rows;
          positions.fill([&](std::int64_t) {
            rows.push_back(uniform_int(0, max_position - 1));
            return static_cast<double>(rows.back());
          });
          const std::vector<double> q_before = q.values(), k_before = k.values();
          rotary_embedding(q, k, positions, cache, c.d, is_neox);
          const std::string what =
              "d " + std::to_string(c.d) + " r " + std::to_string(c.r) + " " + to_string(dtype);
          expect_rotated(q, q_before, rows, cache, c.d, is_neox, "query " + what);
          expect_rotated(k, k_before, rows, cache, c.d, is_neox, "key " + what);
          cache.expect_guards_intact("cache");
          EXPECT_NO_THROW(check(device()));
        }
}

TEST_P(RotaryEmbedding, BatchesPositionsOfEitherWidthAndNoKey) {
  for (DType index : {kInt32, kInt64})
    for (bool collapses : {true, false}) {
      const std::int64_t d = 20, batch_stride = collapses ? 4 * 70 : 400;
      Buffer q(kFloat16, {3, 4, 60}, 0, {batch_stride, 70, 1}),
          k(kFloat16, {3, 4, 2, 20}, 1, {300, 60, 25, 1}), positions(index, {3, 4}, 0, {9, 2}),
          cache(kFloat32, {50, 16}, 0, {23, 1});
      q.fill_normal();
      k.fill_normal();
      fill_cache(cache);
      std::vector<std::int64_t> rows;
      positions.fill([&](std::int64_t) {
        rows.push_back(uniform_int(0, 49));
        return static_cast<double>(rows.back());
      });
      const std::vector<double> q_before = q.values(), k_before = k.values();
      rotary_embedding(q, k, positions, cache, d, true);
      expect_rotated(q, q_before, rows, cache, d, true, "query");
      expect_rotated(k, k_before, rows, cache, d, true, "key");
      const std::vector<double> turned = q.values();
      rotary_embedding(q, Tensor(), positions, cache, d, false);
      expect_rotated(q, turned, rows, cache, d, false, "query without key");
      EXPECT_NO_THROW(check(device()));
    }
}

// vllm-project/vllm-ascend#12723: the sines were looked up at an offset made from the dimension's next power
// of two.
TEST_P(RotaryEmbedding, SinesFollowTheCosinesAtAnyDimension) {
  for (std::int64_t d : {192, 80, 96, 112, 6})
    for (DType dtype : float_types()) {
      Buffer q(dtype, {1, d}), cache(dtype, {1, d}), position(kInt64, {1});
      position.fill([](std::int64_t) { return 0.0; });
      cache.fill([&](std::int64_t i) { return i < d / 2 ? 0.0 : 1.0; });
      q.fill([](std::int64_t i) { return static_cast<double>(i + 1); });
      rotary_embedding(q, Tensor(), position, cache, d, true);
      for (std::int64_t i = 0; i < d; ++i)
        EXPECT_EQ(q.get(i), static_cast<double>(i < d / 2 ? -(i + d / 2 + 1) : i - d / 2 + 1)) << d;
      q.fill([](std::int64_t i) { return static_cast<double>(i + 1); });
      rotary_embedding(q, Tensor(), position, cache, d, false);
      for (std::int64_t i = 0; i < d; ++i)
        EXPECT_EQ(q.get(i), static_cast<double>(i % 2 == 0 ? -(i + 2) : i)) << d;
    }
}

// sgl-project/sglang#20559: the stride of query's heads was used for key, too.
TEST_P(RotaryEmbedding, QueryAndKeyHaveStridesOfTheirOwn) {
  MUSAIC_NEEDS(kBFloat16);
  Buffer q(kBFloat16, {8, 64, 64}, 0, {16384, 256, 1}), k(kBFloat16, {8, 1, 64}, 0, {2624, 64, 1}),
      q_packed(kBFloat16, {8, 64, 64}), k_packed(kBFloat16, {8, 1, 64}), cache(kFloat32, {8, 64}),
      positions(kInt64, {8});
  q.fill_normal();
  k.fill_normal();
  q_packed.fill([&](std::int64_t i) { return q.get(i); });
  k_packed.fill([&](std::int64_t i) { return k.get(i); });
  fill_cache(cache);
  positions.fill([](std::int64_t i) { return static_cast<double>(7 - i); });
  rotary_embedding(q, k, positions, cache, 64, true);
  rotary_embedding(q_packed, k_packed, positions, cache, 64, true);
  EXPECT_EQ(q.bytes(), q_packed.bytes());
  EXPECT_EQ(k.bytes(), k_packed.bytes());
  q.expect_guards_intact("query");
  k.expect_guards_intact("key");
}

TEST_P(RotaryEmbedding, SlicesOfPackedProjections) {
  // Query, key and value of a token side by side: the views interleave in memory without sharing an element.
  Buffer packed(kFloat32, {3, 10, 16}), q(kFloat32, {3, 6, 16}), k(kFloat32, {3, 2, 16}),
      cache(kFloat32, {9, 16}), positions(kInt32, {3});
  packed.fill_normal();
  fill_cache(cache);
  positions.fill([](std::int64_t i) { return static_cast<double>(8 - 3 * i); });
  const std::vector<double> before = packed.values();
  const auto at = [](std::int64_t i, std::int64_t heads, std::int64_t first) {
    return static_cast<std::size_t>(i / (16 * heads) * 160 + first * 16 + i % (16 * heads));
  };
  q.fill([&](std::int64_t i) { return before[at(i, 6, 0)]; });
  k.fill([&](std::int64_t i) { return before[at(i, 2, 6)]; });
  rotary_embedding(packed.tensor().slice(1, 0, 6), packed.tensor().slice(1, 6, 8), positions, cache, 16,
                   true);
  rotary_embedding(q, k, positions, cache, 16, true);
  std::vector<double> expected = before;
  for (std::int64_t i = 0; i < q.numel(); ++i) expected[at(i, 6, 0)] = q.get(i);
  for (std::int64_t i = 0; i < k.numel(); ++i) expected[at(i, 2, 6)] = k.get(i);
  EXPECT_EQ(packed.values(), expected);
}

// vllm-project/vllm#44286: positions past the end of the cache read beyond it.
TEST_P(RotaryEmbedding, PositionsOutsideTheCacheLeaveTheTokenAlone) {
  for (bool is_neox : {true, false}) {
    Buffer q(kFloat16, {4, 2, 256}), cache(kFloat16, {16, 64}), positions(kInt64, {4});
    const std::vector<std::int64_t> asked = {15, 16, -1, std::int64_t{1} << 31};
    q.fill_normal();
    fill_cache(cache);
    positions.fill([&](std::int64_t i) { return static_cast<double>(asked[static_cast<std::size_t>(i)]); });
    const std::vector<double> before = q.values();
    rotary_embedding(q, Tensor(), positions, cache, 256, is_neox);
    expect_rotated(q, before, {15, -1, -1, -1}, cache, 256, is_neox, "query");
    bool found = false;
    try {
      check(device());
    } catch (const Error& e) {
      found = true;
      const std::string text = e.what();
      EXPECT_NE(text.find("rotary_embedding: positions: "), std::string::npos) << text;
      EXPECT_TRUE(text.find("16 at 1") != std::string::npos || text.find("-1 at 2") != std::string::npos ||
                  text.find("2147483648 at 3") != std::string::npos)
          << text;
    }
    EXPECT_TRUE(found);
    EXPECT_NO_THROW(check(device())) << "a fault is raised once";
  }
}

TEST_P(RotaryEmbedding, ElementsPastTheRotaryDimensionKeepTheirBits) {
  MUSAIC_NEEDS(kBFloat16);
  Buffer q(kBFloat16, {2, 40}), cache(kFloat32, {4, 22}), positions(kInt32, {2});
  q.fill_normal();
  fill_cache(cache);
  positions.fill([](std::int64_t i) { return static_cast<double>(i + 1); });
  const std::uint16_t payload = 0xffa5;  // a NaN that no computation stores
  for (std::int64_t t = 0; t < 2; ++t)
    for (std::int64_t i = 22; i < 40; ++i) std::memcpy(q.element(t * 40 + i), &payload, 2);
  for (bool is_neox : {true, false}) {
    rotary_embedding(q, Tensor(), positions, cache, 40, is_neox);
    for (std::int64_t i = 0; i < 80; ++i) {
      if (i % 40 < 22)
        EXPECT_FALSE(std::isnan(q.get(i)));
      else
        EXPECT_EQ(std::memcmp(q.element(i), &payload, 2), 0);
    }
  }
}

TEST_P(RotaryEmbedding, NoTokens) {
  Buffer q(kFloat32, {0, 64}), k(kFloat32, {0, 1, 64}), cache(kFloat32, {4, 64}), none(kFloat32, {0, 64}),
      positions(kInt64, {0});
  fill_cache(cache);
  EXPECT_NO_THROW(rotary_embedding(q, k, positions, cache, 64, true));
  EXPECT_NO_THROW(rotary_embedding(q, k, positions, none, 64, true));
  Buffer batch(kFloat32, {0, 3, 64}), batch_positions(kInt64, {0, 3});
  EXPECT_NO_THROW(rotary_embedding(batch, Tensor(), batch_positions, cache, 64, false));
}

MUSAIC_EVERY_TARGET(RotaryEmbedding);

TEST(RotaryEmbeddingBits, SameEverywhere) {
  for (DType dtype : float_types())
    for (bool is_neox : {true, false})
      for (std::int64_t d : {18, 64, 112}) {
        Buffer q(dtype, {70, 9, d}), k(dtype, {70, 3, d}), cache(kFloat32, {70, d}), positions(kInt64, {70});
        q.fill_normal();
        k.fill_normal();
        fill_cache(cache);
        positions.fill([](std::int64_t i) { return static_cast<double>(69 - i); });
        const std::vector<double> q_values = q.values(), k_values = k.values();
        expect_same_bytes_everywhere([&] {
          q.fill([&](std::int64_t i) { return q_values[static_cast<std::size_t>(i)]; });
          k.fill([&](std::int64_t i) { return k_values[static_cast<std::size_t>(i)]; });
          rotary_embedding(q, k, positions, cache, d, is_neox);
          std::vector<unsigned char> both = q.bytes();
          const std::vector<unsigned char> rest = k.bytes();
          both.insert(both.end(), rest.begin(), rest.end());
          return both;
        });
      }
}

TEST(RotaryEmbeddingErrors, NameTheArgument) {
  Buffer q(kFloat32, {4, 32}), k(kFloat32, {4, 2, 8}), cache(kFloat32, {16, 8}), positions(kInt64, {4}),
      odd(kFloat32, {16, 7}), wide(kFloat32, {16, 10}), half(kFloat16, {4, 8}), floats(kFloat32, {4}),
      five(kInt64, {5}), k9(kFloat32, {4, 2, 9});
  positions.fill([](std::int64_t i) { return static_cast<double>(i); });
  expect_error([&] { rotary_embedding(q, k, floats, cache, 8, true); },
               {"rotary_embedding: positions: dtype float32", "int32, int64"});
  expect_error([&] { rotary_embedding(q, k, five, cache, 8, true); },
               {"rotary_embedding: query: shape [4, 32]", "leading [5] (from positions)"});
  expect_error([&] { rotary_embedding(q, k, positions, odd, 8, true); },
               {"rotary_embedding: cos_sin_cache: shape [16, 7]", "an even last dimension"});
  expect_error([&] { rotary_embedding(q, k, positions, wide, 8, true); }, {"at most head_size=8"});
  expect_error([&] { rotary_embedding(q, k, positions, cache, 9, true); },
               {"rotary_embedding: query: shape [4, 32]", "a multiple of head_size=9"});
  expect_error([&] { rotary_embedding(q, k9, positions, cache, 8, true); },
               {"rotary_embedding: key: shape [4, 2, 9]", "a last dimension of head_size=8"});
  expect_error([&] { rotary_embedding(q, k, positions, cache, 0, true); },
               {"rotary_embedding: head_size: 0"});
  expect_error([&] { rotary_embedding(q, half, positions, cache, 8, true); },
               {"rotary_embedding: key: dtype float16", "float32 (from query)"});
  expect_error([&] { rotary_embedding(q, q, positions, cache, 8, true); },
               {"rotary_embedding: key: memory that overlaps query"});
  expect_error([&] { rotary_embedding(Tensor(), k, positions, cache, 8, true); },
               {"rotary_embedding: query: no tensor"});
  expect_error([&] { rotary_embedding(cache.tensor().slice(0, 0, 4), k, positions, cache, 8, true); },
               {"rotary_embedding: query: memory that overlaps cos_sin_cache"});
  q.fill_normal();
  k.fill_normal();
  fill_cache(cache);
  EXPECT_NO_THROW(rotary_embedding(q, k, positions, cache, 8, true));
}

}  // namespace
}  // namespace musaic::testing
