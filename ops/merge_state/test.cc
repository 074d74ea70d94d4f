#include <cstring>
#include <limits>

#include "ops/merge_state/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct State {
  Buffer v, s;
  State(DType dtype, std::int64_t tokens, std::int64_t heads, std::int64_t d)
      : v(dtype, {tokens, heads, d}, uniform_int(0, 7)), s(kFloat32, {tokens, heads}, uniform_int(0, 7)) {}
  State(DType dtype, const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& v_strides,
        const std::vector<std::int64_t>& s_strides)
      : v(dtype, shape, 0, v_strides), s(kFloat32, {shape[0], shape[1]}, 0, s_strides) {}
  /// Sums near 0, of which about `empty` in ten are plus or minus infinity beside a vector of NaNs.
  State& fill(std::int64_t empty, double spread = 3.0) {
    v.fill_normal();
    s.fill_normal(spread);
    const std::int64_t d = s.numel() > 0 ? v.numel() / s.numel() : 0;
    for (std::int64_t i = 0; i < s.numel(); ++i)
      if (uniform_int(0, 9) < empty) {
        s.set(i, uniform_int(0, 1) == 0 ? kInfinity : -kInfinity);
        for (std::int64_t e = 0; e < d; ++e) v.set(i * d + e, std::numeric_limits<double>::quiet_NaN());
      }
    return *this;
  }
};

void expect_right(State& a, State& b, State& out) {
  const std::vector<double> v_a = a.v.values(), s_a = a.s.values(), v_b = b.v.values(), s_b = b.s.values();
  merge_state_v2(out.v, out.s, a.v, a.s, b.v, b.s);
  const std::vector<double> v = out.v.values(), s = out.s.values();
  const DType dtype = out.v.tensor().dtype();
  const std::int64_t d = out.v.tensor().size(2);
  const double u32 = epsilon(kFloat32);
  for (std::int64_t i = 0; i < out.s.numel(); ++i) {
    const auto row = [&](const std::vector<double>& x) {
      return std::vector<double>(x.begin() + i * d, x.begin() + (i + 1) * d);
    };
    const auto at = static_cast<std::size_t>(i);
    const reference::MergedState e = reference::merge_state(row(v_a), s_a[at], row(v_b), s_b[at]);
    // a - m rounds relative to itself, which the exponential turns into |a - m| u32 of its weight, w |ln w| <
    // 0.4 of the whole; exp, the sum, the quotient, the product and the fma add 9 u32.
    expect_close(
        row(v), e.v,
        [&](std::int64_t j) {
          const auto k = static_cast<std::size_t>(i * d + j);
          const double terms = std::fabs(v_a[k]) + std::fabs(v_b[k]);
          return ((std::isnan(terms) ? 0.0 : terms * 10.0 * u32) +
                  std::fabs(e.v[static_cast<std::size_t>(j)]) * epsilon(dtype)) *
                     1.01 +
                 smallest(dtype);
        },
        "v of row " + std::to_string(i) + " d " + std::to_string(d) + " " + to_string(dtype));
    expect_close(
        {s[at]}, {e.s}, [&](std::int64_t) { return (std::fabs(e.s) + 8.0) * u32; },
        "s of row " + std::to_string(i));
  }
  out.v.expect_guards_intact("v_merged");
  out.s.expect_guards_intact("s_merged");
}

class MergeState : public OnTarget {};

TEST_P(MergeState, MatchesFloat64) {
  for (DType dtype : float_types())
    for (std::int64_t d : {1, 2, 7, 8, 9, 32, 48, 63, 64, 128, 192, 257, 512})
      for (std::int64_t empty : {0, 3}) {
        State a(dtype, 5, 3, d), b(dtype, 5, 3, d), out(dtype, 5, 3, d);
        expect_right(a.fill(empty), b.fill(empty, 30.0), out);
      }
}

TEST_P(MergeState, EveryCombinationOfDtypes) {
  for (DType a_dtype : float_types())
    for (DType b_dtype : float_types())
      for (DType dtype : float_types()) {
        State a(a_dtype, 2, 3, 21), b(b_dtype, 2, 3, 21), out(dtype, 2, 3, 21);
        expect_right(a.fill(2), b.fill(2), out);
      }
}

// flashinfer-ai/flashinfer#4051, vllm-project/vllm#39148: merging two empty states gave NaN.
TEST_P(MergeState, EmptyIsTheIdentity) {
  for (DType dtype : float_types())
    for (double none : {-kInfinity, kInfinity}) {
      State a(dtype, 2, 2, 64), b(dtype, 2, 2, 64), out(dtype, 2, 2, 64);
      a.v.fill([](std::int64_t i) { return i < 128 ? 0.0 : 1.0; });
      b.v.fill([](std::int64_t i) { return i < 128 ? 0.0 : 3.0; });
      a.s.fill([&](std::int64_t i) { return i < 2 ? none : 0.0; });
      b.s.fill([&](std::int64_t i) { return i < 2 ? none : std::log(3.0); });
      merge_state_v2(out.v, out.s, a.v, a.s, b.v, b.s);
      for (std::int64_t i = 0; i < 4; ++i) {
        if (i < 2)
          EXPECT_EQ(out.s.get(i), -kInfinity);
        else
          EXPECT_NEAR(out.s.get(i), 1.3862944, 3e-7);
        for (std::int64_t e = 0; e < 64; ++e)
          EXPECT_NEAR(out.v.get(i * 64 + e), i < 2 ? 0.0 : 2.5, i < 2 ? 0.0 : 5e-7);
      }
      // The other side comes back bit for bit, whatever the empty side's vector holds.
      State garbage(dtype, 2, 2, 64), full(dtype, 2, 2, 64);
      full.fill(0, 80.0);
      garbage.v.fill([](std::int64_t i) { return i % 2 == 0 ? kInfinity : std::nan(""); });
      garbage.s.fill([&](std::int64_t) { return none; });
      for (bool first : {true, false}) {
        State& x = first ? full : garbage;
        State& y = first ? garbage : full;
        merge_state_v2(out.v, out.s, x.v, x.s, y.v, y.s);
        EXPECT_EQ(out.v.bytes(), full.v.bytes());
        EXPECT_EQ(out.s.bytes(), full.s.bytes());
      }
    }
}

// sgl-project/sglang#23993: a block held all heads of a token and grew past the launch limit.
TEST_P(MergeState, ManyHeads) {
  for (std::int64_t heads : {96, 128, 256})
    for (std::int64_t d : {64, 128, 192, 512}) {
      State a(kFloat16, 3, heads, d), b(kFloat16, 3, heads, d), out(kFloat16, 3, heads, d);
      expect_right(a.fill(1), b.fill(1), out);
    }
}

TEST_P(MergeState, StridedTokensHeadsAndSums) {
  for (DType dtype : float_types()) {
    State a(dtype, {4, 3, 20}, {100, 30, 1}, {7, 2}), b(dtype, {4, 3, 20}, {21, 84, 1}, {1, 4}),
        out(dtype, {4, 3, 20}, {70, 23, 1}, {3, 12});
    expect_right(a.fill(2), b.fill(2), out);
    State one(dtype, {4, 1, 20}, {50, 3, 1}, {2, 1}), two(dtype, {4, 1, 20}, {40, 3, 1}, {3, 9}),
        merged(dtype, {4, 1, 20}, {60, 9, 1}, {2, 2});
    expect_right(one.fill(2), two.fill(2), merged);
  }
}

TEST_P(MergeState, InPlaceOnEitherSide) {
  for (DType dtype : float_types())
    for (bool into_a : {true, false}) {
      State a(dtype, 3, 4, 75), b(dtype, 3, 4, 75), out(dtype, 3, 4, 75);
      a.fill(2);
      b.fill(2);
      merge_state_v2(out.v, out.s, a.v, a.s, b.v, b.s);
      State& into = into_a ? a : b;
      merge_state_v2(into.v, into.s, a.v, a.s, b.v, b.s);
      EXPECT_EQ(into.v.bytes(), out.v.bytes());
      EXPECT_EQ(into.s.bytes(), out.s.bytes());
    }
}

TEST_P(MergeState, FarApartSumsAndNaN) {
  State a(kFloat32, 1, 4, 9), b(kFloat32, 1, 4, 9), out(kFloat32, 1, 4, 9);
  a.fill(0);
  b.fill(0);
  const double sums_a[] = {0.0, 3e38, std::nan(""), 1.0}, sums_b[] = {500.0, -3e38, 1.0, std::nan("")};
  for (std::int64_t h = 0; h < 4; ++h) {
    a.s.set(h, sums_a[h]);
    b.s.set(h, sums_b[h]);
  }
  merge_state_v2(out.v, out.s, a.v, a.s, b.v, b.s);
  for (std::int64_t e = 0; e < 9; ++e) {
    EXPECT_EQ(out.v.get(e), b.v.get(e));
    EXPECT_EQ(out.v.get(9 + e), a.v.get(9 + e));
    EXPECT_TRUE(std::isnan(out.v.get(18 + e)));
    EXPECT_TRUE(std::isnan(out.v.get(27 + e)));
  }
  EXPECT_EQ(out.s.get(0), 500.0);
  EXPECT_EQ(out.s.get(1), a.s.get(1));
  EXPECT_TRUE(std::isnan(out.s.get(2)));
  EXPECT_TRUE(std::isnan(out.s.get(3)));
}

TEST_P(MergeState, Empty) {
  for (const auto& shape : {std::vector<std::int64_t>{0, 4, 8}, std::vector<std::int64_t>{3, 0, 8}}) {
    State a(kFloat16, shape[0], shape[1], shape[2]), b(kFloat16, shape[0], shape[1], shape[2]),
        out(kFloat16, shape[0], shape[1], shape[2]);
    EXPECT_NO_THROW(merge_state_v2(out.v, out.s, a.v, a.s, b.v, b.s));
  }
  State a(kFloat16, 2, 1, 0), b(kFloat16, 2, 1, 0), out(kFloat16, 2, 1, 0);
  a.s.fill([](std::int64_t) { return 1.0; });
  b.s.fill([](std::int64_t) { return -kInfinity; });
  merge_state_v2(out.v, out.s, a.v, a.s, b.v, b.s);
  EXPECT_EQ(out.s.values(), (std::vector<double>{1.0, 1.0}));
}

MUSAIC_EVERY_TARGET(MergeState);

TEST(MergeStateBits, SameEverywhereAndPerHead) {
  for (DType dtype : float_types())
    for (std::int64_t d : {1, 63, 128, 513}) {
      State a(dtype, 11, 7, d), b(dtype, 11, 7, d);
      a.fill(1, 20.0);
      b.fill(1, 20.0);
      std::vector<unsigned char> v, s;
      expect_same_bytes_everywhere([&] {
        State out(dtype, 11, 7, d);
        merge_state_v2(out.v, out.s, a.v, a.s, b.v, b.s);
        v = out.v.bytes();
        s = out.s.bytes();
        std::vector<unsigned char> both = v;
        both.insert(both.end(), s.begin(), s.end());
        return both;
      });
      State one(dtype, 1, 1, d);
      const auto head = [](State& x, bool vector) {
        const Tensor t = vector ? x.v.tensor() : x.s.tensor();
        return t.slice(0, 4, 5).slice(1, 3, 4);
      };
      merge_state_v2(one.v, one.s, head(a, true), head(a, false), head(b, true), head(b, false));
      const std::vector<unsigned char> alone = one.v.bytes(), alone_s = one.s.bytes();
      const std::ptrdiff_t row = 4 * 7 + 3;
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                             v.begin() + row * static_cast<std::ptrdiff_t>(alone.size())));
      EXPECT_TRUE(std::equal(alone_s.begin(), alone_s.end(), s.begin() + row * 4));
    }
}

TEST(MergeStateErrors, NameTheArgument) {
  State a(kFloat32, 2, 3, 8), b(kFloat32, 2, 3, 8), out(kFloat32, 2, 3, 8), other(kFloat32, 2, 4, 8);
  Buffer half(kFloat16, {2, 3}), ints(kInt32, {2, 3, 8});
  expect_error([&] { merge_state_v2(out.v, out.s, a.v, a.s, other.v, b.s); },
               {"merge_state_v2: v_b: shape [2, 4, 8]", "num_heads=3"});
  expect_error([&] { merge_state_v2(out.v, out.s, a.v, half, b.v, b.s); },
               {"merge_state_v2: s_a: dtype float16", "float32"});
  expect_error([&] { merge_state_v2(out.v, out.s, ints, a.s, b.v, b.s); },
               {"merge_state_v2: v_a: dtype int32"});
  expect_error([&] { merge_state_v2(out.v, Tensor(), a.v, a.s, b.v, b.s); },
               {"merge_state_v2: s_merged: no tensor"});
  expect_error([&] { merge_state_v2(a.v.tensor(), a.v.tensor()[0].slice(1, 0, 3), a.v, a.s, b.v, b.s); },
               {"merge_state_v2: s_merged: shape"});
  Buffer one(kFloat32, {3, 3, 8});
  expect_error(
      [&] { merge_state_v2(one.tensor().slice(0, 1, 3), out.s, one.tensor().slice(0, 0, 2), a.s, b.v, b.s); },
      {"merge_state_v2: v_merged: memory that overlaps v_a"});
  a.fill(0);
  b.fill(0);
  EXPECT_NO_THROW(merge_state_v2(out.v, out.s, a.v, a.s, b.v, b.s));
}

}  // namespace
}  // namespace musaic::testing
