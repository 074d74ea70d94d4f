#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "ops/moe_routing/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;
using Bytes = std::vector<unsigned char>;

double to_float32(double v) { return round_to(kFloat32, v); }

/// One of the four operators with its options.
struct Router {
  enum class Kind { kSoftmax, kSigmoid, kGrouped, kKimi } kind = Kind::kSoftmax;
  bool renormalize = false;
  double soft_cap = 0;
  std::int64_t groups = 1, kept = 1, shared = 0;
  double factor = 1;
  bool apply = false;

  void operator()(const Tensor& weights, const Tensor& ids, const Tensor& logits, const Tensor& bias) const {
    switch (kind) {
      case Kind::kSoftmax:
        return topk_softmax(weights, ids, logits, bias, renormalize, soft_cap);
      case Kind::kSigmoid:
        return topk_sigmoid(weights, ids, logits, bias, renormalize);
      case Kind::kGrouped:
        return moe_fused_gate(weights, ids, logits, bias, groups, kept, shared, factor, apply);
      case Kind::kKimi:
        return kimi_k2_moe_fused_gate(weights, ids, logits, bias, renormalize, factor, apply);
    }
  }
};

/// What float64 says of a row, and whether float32 must choose the same experts.
struct ExpectedRow {
  Integers ids;
  Numbers weights, tolerance;
  bool is_decided = true;
};

ExpectedRow expected_row(const Router& r, DType dtype, const Numbers& x, const Numbers& bias,
                         std::int64_t k) {
  const bool softmax = r.kind == Router::Kind::kSoftmax, grouped = r.kind == Router::Kind::kGrouped;
  ExpectedRow e;
  Numbers score, value;
  const bool is_rounded = grouped && dtype != kFloat32;
  const bool is_exact = is_rounded || (softmax && r.soft_cap == 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    double s = softmax ? (r.soft_cap == 0 ? x[i] : r.soft_cap * std::tanh(x[i] / r.soft_cap))
                       : reference::logistic(x[i]);
    if (is_rounded) {
      // The float32 score may fall on the other side of a rounding boundary.
      e.is_decided = e.is_decided && !(round_to(dtype, s * (1 - 1e-6)) != round_to(dtype, s * (1 + 1e-6)));
      s = round_to(dtype, s);
    }
    double v = bias.empty() ? s : to_float32(s + bias[i]);
    if (is_rounded) v = round_to(dtype, v);
    score.push_back(s);
    value.push_back(v);
  }
  const auto routed = static_cast<std::int64_t>(k - r.shared);
  if (!is_exact) {
    // Closer than float32 can tell apart, unless they come from equal numbers.
    const Integers order = reference::first_of_order(value, static_cast<std::int64_t>(value.size()));
    for (std::size_t i = 0; i + 1 < order.size(); ++i) {
      const auto a = static_cast<std::size_t>(order[i]), b = static_cast<std::size_t>(order[i + 1]);
      const bool equal = x[a] == x[b] && (bias.empty() || bias[a] == bias[b]);
      if (!equal && std::fabs(value[a] - value[b]) < 2e-6 * (1 + r.soft_cap)) e.is_decided = false;
    }
  }
  if (r.groups > 1 && !is_rounded) {
    Numbers sums;
    const std::size_t size = x.size() / static_cast<std::size_t>(r.groups);
    for (std::size_t g = 0; g < x.size(); g += size) {
      Numbers v(value.begin() + static_cast<std::ptrdiff_t>(g),
                value.begin() + static_cast<std::ptrdiff_t>(g + size));
      std::sort(v.begin(), v.end(), std::greater<>());
      sums.push_back(size == 1 ? v[0] : v[0] + v[1]);
    }
    std::sort(sums.begin(), sums.end());
    for (std::size_t i = 0; i + 1 < sums.size(); ++i)
      if (sums[i + 1] - sums[i] < 2e-6) e.is_decided = false;
  }
  const bool has_nan = std::any_of(value.begin(), value.end(), [](double v) { return std::isnan(v); });
  if (softmax && !has_nan) score = reference::softmax(value);
  const bool renormalize = grouped || r.renormalize;
  reference::Routed chosen = reference::choose(value, score, routed, renormalize, r.groups, r.kept);
  const double scale =
      (grouped || (r.kind == Router::Kind::kKimi && r.renormalize)) && r.apply ? r.factor : 1;
  const double max = *std::max_element(value.begin(), value.end());
  for (std::size_t j = 0; j < chosen.ids.size(); ++j) {
    const double w = chosen.weights[j] * scale, z = value[static_cast<std::size_t>(chosen.ids[j])];
    double relative = 3e-6;
    // e^(z - max) has the error of its argument; a capped z has one of its own.
    if (softmax && !has_nan && std::isfinite(z - max))
      relative += 1.3e-7 * std::fabs(z - max) + 1e-6 * r.soft_cap;
    e.ids.push_back(chosen.ids[j]);
    e.weights.push_back(w);
    e.tolerance.push_back(std::fabs(w) * relative + 1e-37);
  }
  for (std::int64_t s = 0; s < r.shared; ++s) {
    e.ids.push_back(static_cast<std::int64_t>(x.size()) + s);
    e.weights.push_back(has_nan ? 0 : r.apply ? 1 : 1 / r.factor);
    e.tolerance.push_back(std::fabs(e.weights.back()) * 1e-6);
  }
  return e;
}

/// Runs a router and compares every row that is decided; returns how many those are.
std::int64_t expect_right(const Router& r, Buffer& logits, Buffer* bias, std::int64_t k,
                          DType id_dtype = kInt32) {
  const Tensor in = logits.tensor();
  const std::int64_t tokens = in.size(0), experts = in.size(1);
  const DType dtype = in.dtype();
  Buffer weights(kFloat32, {tokens, k}, 3, {k + 2, 1}), ids(id_dtype, {tokens, k}, 1, {k + 1, 1});
  weights.poison();
  ids.poison();
  const std::vector<unsigned char> before = logits.bytes();
  r(weights, ids, logits, bias != nullptr ? bias->tensor() : Tensor());
  weights.expect_guards_intact("topk_weights");
  ids.expect_guards_intact("topk_ids");
  EXPECT_EQ(logits.bytes(), before);
  const Numbers x = logits.values(), b = bias != nullptr ? bias->values() : Numbers(), w = weights.values(),
                i = ids.values();
  std::int64_t decided = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const ExpectedRow e =
        expected_row(r, dtype, Numbers(x.begin() + t * experts, x.begin() + (t + 1) * experts), b, k);
    std::set<double> distinct(i.begin() + t * k, i.begin() + (t + 1) * k);
    EXPECT_EQ(distinct.size(), static_cast<std::size_t>(k)) << "repeated ids in row " << t;
    for (const double id : distinct)
      EXPECT_TRUE(id >= 0 && id < static_cast<double>(experts + r.shared)) << id;
    if (!e.is_decided) continue;
    ++decided;
    for (std::int64_t j = 0; j < k; ++j) {
      const auto at = static_cast<std::size_t>(j);
      EXPECT_EQ(i[static_cast<std::size_t>(t * k + j)], static_cast<double>(e.ids[at]))
          << "slot " << j << " of row " << t << ", " << experts << " experts, k " << k << ", "
          << to_string(dtype);
      EXPECT_NEAR(w[static_cast<std::size_t>(t * k + j)], e.weights[at], e.tolerance[at])
          << "slot " << j << " of row " << t << ", " << experts << " experts, k " << k << ", "
          << to_string(dtype);
    }
    if (::testing::Test::HasFailure()) return decided;
  }
  return decided;
}

class MoeRouting : public OnTarget {};

TEST_P(MoeRouting, SoftmaxOfEveryOptionAndSize) {
  std::int64_t decided = 0, rows = 0;
  for (const DType dtype : float_types())
    for (const std::int64_t experts :
         {1, 2, 7, 8, 9, 31, 48, 64, 160, 256, 257, 384, 512, 513, 1000, 2049, 2500}) {
      if (is_slow() && experts > 260 && experts % 512 > 1) continue;
      for (int option = 0; option < 8; ++option) {
        if ((experts > 64 || is_slow()) && option != static_cast<int>(experts + dtype.bits) % 8) continue;
        Router r;
        r.renormalize = (option & 1) != 0;
        r.soft_cap = (option & 2) != 0 ? 7.5 : 0;
        const std::int64_t tokens = uniform_int(1, scaled(9, 5)),
                           k = std::min<std::int64_t>(experts, uniform_int(1, 9));
        Buffer logits(dtype, {tokens, experts}, option, {experts + option, 1}), bias(kFloat32, {experts}, 1);
        logits.fill_normal(4);
        bias.fill_normal();
        rows += tokens;
        decided += expect_right(r, logits, (option & 4) != 0 ? &bias : nullptr, k,
                                option % 3 == 0 ? kInt64 : kInt32);
        if (HasFailure()) return;
      }
    }
  EXPECT_GT(decided, rows * 7 / 10);
}

TEST_P(MoeRouting, SigmoidAndKimiOfEveryOptionAndSize) {
  std::int64_t decided = 0, rows = 0;
  for (const DType dtype : float_types())
    for (const std::int64_t experts : {1, 3, 8, 17, 48, 65, 256, 384, 640, 1100}) {
      if (is_slow() && experts > 260 && experts != 1100) continue;
      for (int option = 0; option < 8; ++option) {
        if ((experts > 48 || is_slow()) && option != static_cast<int>(experts + dtype.bits) % 8) continue;
        Router r;
        r.kind = (option & 4) != 0 ? Router::Kind::kKimi : Router::Kind::kSigmoid;
        r.renormalize = (option & 1) != 0;
        r.factor = 2.872;
        r.apply = (option & 2) != 0;
        const bool has_bias = r.kind == Router::Kind::kKimi || r.apply;
        const std::int64_t tokens = uniform_int(1, 6), k = std::min<std::int64_t>(experts, uniform_int(1, 9));
        Buffer logits(dtype, {tokens, experts}, option),
            bias(experts % 2 == 0 ? kFloat32 : kFloat16, {experts});
        logits.fill_normal(dtype == kFloat32 ? 2 : 1);
        bias.fill_normal();
        rows += tokens;
        decided += expect_right(r, logits, has_bias ? &bias : nullptr, k);
        if (HasFailure()) return;
      }
    }
  EXPECT_GT(decided, rows / 2);
}

TEST_P(MoeRouting, GroupsOfEveryShape) {
  const struct {
    std::int64_t experts, groups, kept, k, shared;
  } shapes[] = {{256, 8, 4, 8, 0},   {128, 4, 2, 4, 1},   {512, 16, 8, 16, 2},  {160, 1, 1, 6, 0},
                {160, 8, 3, 7, 1},   {256, 1, 1, 8, 0},   {256, 8, 4, 6, 3},    {60, 5, 2, 5, 0},
                {64, 64, 9, 9, 0},   {36, 36, 36, 36, 0}, {6, 3, 1, 2, 0},      {1, 1, 1, 2, 1},
                {96, 3, 2, 40, 0},   {256, 16, 4, 8, 1},  {1040, 40, 3, 20, 0}, {2100, 7, 3, 35, 1},
                {700, 350, 70, 9, 0}};
  std::int64_t decided = 0, rows = 0;
  for (const DType dtype : float_types())
    for (const auto& s : shapes) {
      if (is_slow() && (s.experts > 600 || dtype == kBFloat16) && dtype != kFloat32) continue;
      for (const bool apply : {false, true}) {
        Router r;
        r.kind = Router::Kind::kGrouped;
        r.groups = s.groups;
        r.kept = s.kept;
        r.shared = s.shared;
        r.factor = 2.5;
        r.apply = apply;
        const std::int64_t tokens = s.experts > 600 ? 2 : uniform_int(1, 6);
        Buffer logits(dtype, {tokens, s.experts}), bias(apply ? dtype : kFloat32, {s.experts});
        logits.fill_normal();
        bias.fill_normal(0.5);
        rows += tokens;
        decided += expect_right(r, logits, &bias, s.k, apply ? kInt64 : kInt32);
        if (HasFailure()) return;
      }
    }
  EXPECT_GT(decided, rows / 2);
}

TEST_P(MoeRouting, TiesAndSpecialNumbers) {
  const double pool[] = {0.0, -0.0, 1.0, 1.0, -1.0, 3.0, kInf, -kInf, kNan, -2.0};
  for (const DType dtype : float_types())
    for (const std::int64_t experts : {5, 40, 300, 1030})
      for (int kind = 0; kind < 4; ++kind) {
        if (is_slow() && experts > 300 && kind % 2 == 1) continue;
        Router r;
        r.kind = static_cast<Router::Kind>(kind);
        r.renormalize = kind % 2 == 0;
        if (r.kind == Router::Kind::kGrouped) {
          r.groups = 5;
          r.kept = 3;
        }
        // Rows without NaNs, without infinities, of one number alone, of everything.
        Buffer logits(dtype, {10, experts}), bias(kFloat32, {experts});
        logits.fill([&](std::int64_t i) {
          const std::int64_t row = i / experts;
          return row < 4   ? pool[uniform_int(0, row < 2 ? 5 : 7)]
                 : row < 8 ? pool[row == 4   ? 6
                                  : row == 5 ? 7
                                  : row == 6 ? 8
                                             : 0]
                           : pool[uniform_int(0, 9)];
        });
        bias.fill([](std::int64_t) { return 0.0; });
        expect_right(r, logits, kind >= 2 ? &bias : nullptr, r.kind == Router::Kind::kGrouped ? 3 : 5);
        if (HasFailure()) return;
      }
}

TEST_P(MoeRouting, C26NanRows) {
  for (const double special : {kNan, kInf, -kInf})
    for (int kind = 0; kind < 4; ++kind) {
      Router r;
      r.kind = static_cast<Router::Kind>(kind);
      r.renormalize = true;
      Buffer three(kFloat32, {3, 128}), one(kFloat32, {1, 128}), bias(kFloat32, {128});
      const auto ramp = [](std::int64_t i) { return static_cast<double>(i % 128 * 37 % 128) * 0.05; };
      three.fill([&](std::int64_t i) { return i / 128 == 1 ? special : ramp(i); });
      one.fill(ramp);
      bias.fill([](std::int64_t) { return 0.0; });
      Buffer weights(kFloat32, {3, 8}), ids(kInt32, {3, 8}), weights1(kFloat32, {1, 8}), ids1(kInt32, {1, 8});
      r(weights, ids, three, bias);
      r(weights1, ids1, one, bias);
      for (std::int64_t j = 0; j < 8; ++j) {
        EXPECT_EQ(ids.get(8 + j), static_cast<double>(j));
        EXPECT_TRUE(std::isfinite(weights.get(8 + j)));
        if (std::isnan(special)) {
          EXPECT_EQ(weights.get(8 + j), 0.0);
        }
        for (const std::int64_t row : {0, 2}) {
          EXPECT_EQ(ids.get(8 * row + j), ids1.get(j));
          EXPECT_EQ(weights.get(8 * row + j), weights1.get(j));
        }
      }
    }
  // Some experts of a row: the others keep their order, the NaNs follow from the lowest on.
  Buffer logits(kFloat32, {1, 6}), weights(kFloat32, {1, 5}), ids(kInt64, {1, 5});
  const double x[] = {kNan, 1, kNan, 3, -kInf, kNan};
  logits.fill([&](std::int64_t i) { return x[i]; });
  topk_softmax(weights, ids, logits);
  EXPECT_EQ(ids.values(), (Numbers{3, 1, 4, 0, 2}));
  EXPECT_EQ(weights.values(), Numbers(5, 0.0));
}

TEST_P(MoeRouting, C27FewExperts) {
  for (const DType dtype : float_types())
    for (const std::int64_t experts : {1, 2, 4, 8, 17}) {
      Buffer logits(dtype, {1, experts}), bias(kFloat32, {experts}), weights(kFloat32, {1, 1}),
          ids(kInt32, {1, 1});
      logits.fill([](std::int64_t) { return 0.0; });
      bias.fill([](std::int64_t) { return 0.0; });
      topk_sigmoid(weights, ids, logits, bias);
      EXPECT_EQ(ids.get(0), 0.0);
      EXPECT_EQ(weights.get(0), 0.5);
      weights.expect_guards_intact("topk_weights");
      ids.expect_guards_intact("topk_indices");
    }
}

TEST_P(MoeRouting, C28NegativeBias) {
  for (const std::int64_t experts : {48, 64}) {
    Buffer logits(kFloat32, {1, experts}), bias(kFloat32, {experts}), weights(kFloat32, {1, 4}),
        ids(kInt32, {1, 4});
    logits.fill([](std::int64_t) { return 0.0; });
    bias.fill([](std::int64_t e) { return -5 - 0.01 * static_cast<double>(e); });
    topk_sigmoid(weights, ids, logits, bias, true);
    EXPECT_EQ(ids.values(), (Numbers{0, 1, 2, 3}));
    EXPECT_EQ(weights.values(), Numbers(4, 0.25));
  }
}

TEST_P(MoeRouting, C29WithoutRenormalisation) {
  Buffer logits(kFloat32, {1, 4}), weights(kFloat32, {1, 2}), ids(kInt32, {1, 2});
  logits.fill([](std::int64_t e) { return 2.0 - static_cast<double>(e); });
  for (const bool renormalize : {false, true}) {
    topk_softmax(weights, ids, logits, {}, renormalize);
    EXPECT_NEAR(weights.get(0), renormalize ? 0.7310586 : 0.6439143, 1e-7);
    EXPECT_NEAR(weights.get(1), renormalize ? 0.2689414 : 0.2368828, 1e-7);
  }
}

TEST_P(MoeRouting, C30EqualScores) {
  for (const std::int64_t experts : {8, 24, 64, 160, 256, 384, 600})
    for (const std::int64_t k : {1, 2, 6, 8})
      for (int kind = 0; kind < 4; ++kind) {
        if (is_slow() && (k % 6 == 2 || experts == 160)) continue;
        Router r;
        r.kind = static_cast<Router::Kind>(kind);
        Buffer logits(kFloat32, {2, experts}), bias(kFloat32, {experts}), weights(kFloat32, {2, k}),
            ids(kInt32, {2, k});
        // The second row: expert 0 first, then 5 and the last one tie at the cut.
        logits.fill([&](std::int64_t i) {
          const std::int64_t e = i % experts;
          return i < experts ? 0.25 : e == 0 ? 3.0 : e == 5 || e == experts - 1 ? 2.0 : -1.0;
        });
        bias.fill([](std::int64_t) { return 0.0; });
        r(weights, ids, logits, bias);
        for (std::int64_t j = 0; j < k; ++j) EXPECT_EQ(ids.get(j), static_cast<double>(j));
        if (k == 2) {
          EXPECT_EQ(ids.get(3), 5.0);
        }
      }
}

TEST_P(MoeRouting, C31LargeGroupsAndManyTokens) {
  for (const std::int64_t experts : {256, 160}) {
    const std::int64_t k = experts == 256 ? 8 : 6, tokens = scaled<std::int64_t>(65000, 70);
    Buffer many(kFloat32, {tokens, experts}), few(kFloat32, {3, experts}), bias(kFloat32, {experts});
    bias.fill_normal(0.3);
    few.fill_normal();
    const Bytes three = few.bytes();
    Bytes all;
    for (std::int64_t t = 0; t + 3 <= tokens; t += 3) all.insert(all.end(), three.begin(), three.end());
    all.insert(all.end(), three.begin(),
               three.begin() + static_cast<std::ptrdiff_t>(tokens % 3 * 4 * experts));
    many.set_bytes(all);
    Router r;
    r.kind = Router::Kind::kGrouped;
    expect_right(r, few, &bias, k);
    Buffer weights(kFloat32, {tokens, k}), ids(kInt32, {tokens, k}), weights3(kFloat32, {3, k}),
        ids3(kInt32, {3, k});
    r(weights, ids, many, bias);
    r(weights3, ids3, few, bias);
    const std::vector<unsigned char> w = weights.bytes(), i = ids.bytes(), w3 = weights3.bytes(),
                                     i3 = ids3.bytes();
    const auto row = static_cast<std::size_t>(4 * k);
    for (std::size_t t = 0; t < static_cast<std::size_t>(tokens); ++t) {
      ASSERT_EQ(std::memcmp(&w[t * row], &w3[t % 3 * row], row), 0) << "row " << t;
      ASSERT_EQ(std::memcmp(&i[t * row], &i3[t % 3 * row], row), 0) << "row " << t;
    }
  }
}

TEST_P(MoeRouting, C32SixExpertsAndHalfBias) {
  for (const DType bias_dtype : float_types()) {
    Buffer logits(kFloat32, {5, 256}), bias(bias_dtype, {256}), wide(kFloat32, {256});
    logits.fill([](std::int64_t i) { return static_cast<double>(i * 71 % 256) * 0.02 - 2.0; });
    bias.fill([](std::int64_t e) { return 0.25 * static_cast<double>(e % 3); });
    wide.fill([](std::int64_t e) { return 0.25 * static_cast<double>(e % 3); });
    Buffer w(kFloat32, {5, 6}), i(kInt32, {5, 6}), w2(kFloat32, {5, 6}), i2(kInt32, {5, 6});
    moe_fused_gate(w, i, logits, bias, 8, 4);
    moe_fused_gate(w2, i2, logits, wide, 8, 4);
    EXPECT_EQ(w.bytes(), w2.bytes());
    EXPECT_EQ(i.bytes(), i2.bytes());
    Router r;
    r.kind = Router::Kind::kGrouped;
    r.groups = 8;
    r.kept = 4;
    expect_right(r, logits, &bias, 6);
  }
}

TEST_P(MoeRouting, Empty) {
  Buffer none(kFloat32, {0, 8}), logits(kFloat32, {3, 8}), w(kFloat32, {0, 2}), i(kInt32, {0, 2}),
      w0(kFloat32, {3, 0}), i0(kInt32, {3, 0}), bias(kFloat32, {8});
  EXPECT_NO_THROW(topk_softmax(w, i, none));
  EXPECT_NO_THROW(topk_sigmoid(w0, i0, logits));
  EXPECT_NO_THROW(moe_fused_gate(w, i, none, bias, 2, 1));
  EXPECT_NO_THROW(kimi_k2_moe_fused_gate(w0, i0, logits, bias));
}

MUSAIC_EVERY_TARGET(MoeRouting);

TEST(MoeRoutingBits, SameEverywhere) {
  for (const DType dtype : {kFloat32, kFloat16})
    for (const std::int64_t experts : {48, 300, 1028}) {
      Buffer logits(dtype, {11, experts}), bias(kFloat32, {experts});
      logits.fill_normal(3);
      for (std::int64_t i = 0; i < 40; ++i) logits.set(uniform_int(0, 11 * experts - 1), 1.5);
      bias.fill_normal();
      for (int option = 0; option < 6; ++option) {
        Router r;
        r.kind = static_cast<Router::Kind>(option % 4);
        r.renormalize = option >= 4;
        r.soft_cap = option == 4 ? 5 : 0;
        r.groups = option == 2 ? 4 : 1;
        r.kept = option == 2 ? 2 : 1;
        expect_same_bytes_everywhere([&] {
          Buffer weights(kFloat32, {11, 10}), ids(kInt32, {11, 10});
          r(weights, ids, logits, bias);
          std::vector<unsigned char> bytes = weights.bytes();
          const std::vector<unsigned char> more = ids.bytes();
          bytes.insert(bytes.end(), more.begin(), more.end());
          return bytes;
        });
      }
    }
}

TEST(MoeRoutingErrors, NameTheArgument) {
  use_target(targets()[0]);
  const Buffer logits(kFloat32, {4, 8}), w(kFloat32, {4, 2}), i(kInt32, {4, 2}), half(kFloat16, {4, 2}),
      w5(kFloat32, {5, 2}), w9(kFloat32, {4, 9}), i9(kInt32, {4, 9}), bias(kFloat32, {8}),
      bias7(kFloat32, {7}), w8(kFloat32, {4, 8}), i8(kInt32, {4, 8});
  expect_error([&] { topk_softmax(w5, i, logits); },
               {"topk_softmax: topk_weights: shape [5, 2]", "num_tokens=4"});
  expect_error([&] { topk_softmax(half, i, logits); }, {"topk_softmax: topk_weights: dtype float16"});
  expect_error([&] { topk_softmax(w, w, logits); }, {"topk_softmax: topk_indices: dtype float32"});
  expect_error([&] { topk_softmax(w9, i9, logits); },
               {"topk_softmax: topk_weights: 9 routed", "num_experts = 8"});
  expect_error([&] { topk_softmax(w, i, i); }, {"topk_softmax: gating_output: dtype int32"});
  expect_error([&] { topk_softmax(w, i, logits, bias7); }, {"topk_softmax: correction_bias: shape [7]"});
  expect_error([&] { topk_softmax(w, i, logits, {}, false, -1); }, {"topk_softmax: moe_softcapping: -1"});
  expect_error([&] { topk_softmax(w, i, logits, {}, false, kNan); }, {"topk_softmax: moe_softcapping: "});
  expect_error([&] { topk_sigmoid(w, Tensor(), logits); }, {"topk_sigmoid: topk_indices: no tensor"});
  expect_error([&] { moe_fused_gate(w, i, logits, {}, 2, 1); }, {"moe_fused_gate: bias: no tensor"});
  expect_error([&] { moe_fused_gate(w, i, logits, bias, 3, 1); },
               {"moe_fused_gate: num_expert_group: 3", "divisor"});
  expect_error([&] { moe_fused_gate(w, i, logits, bias, 0, 1); }, {"moe_fused_gate: num_expert_group: 0"});
  expect_error([&] { moe_fused_gate(w, i, logits, bias, 2, 3); }, {"moe_fused_gate: topk_group: 3"});
  expect_error([&] { moe_fused_gate(w8, i8, logits, bias, 2, 1); },
               {"moe_fused_gate: topk_weights: 8 routed", "at most the 4 experts"});
  expect_error([&] { moe_fused_gate(w, i, logits, bias, 2, 1, 3); },
               {"moe_fused_gate: num_fused_shared_experts: 3"});
  expect_error([&] { moe_fused_gate(w, i, logits, bias, 2, 1, 1); },
               {"moe_fused_gate: routed_scaling_factor: 0"});
  expect_error([&] { kimi_k2_moe_fused_gate(w, i, logits, bias, true, kInf); },
               {"kimi_k2_moe_fused_gate: routed_scaling_factor: inf"});
  expect_error([&] { topk_softmax(logits, i8, logits); }, {"topk_softmax: topk_weights: "});
}

}  // namespace
}  // namespace musaic::testing
