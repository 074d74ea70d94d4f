#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "ops/sampling/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

using reference::Filters;
using Row = std::vector<double>;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kHuge = std::int64_t{1} << 30;

/// Everything that one call takes; outputs are poisoned.
struct Call {
  Call(DType dtype, std::int64_t rows, std::int64_t vocab_size, std::int64_t outputs = -1)
      : n(outputs < 0 ? rows : outputs),
        vocab(vocab_size),
        input(dtype, {rows, vocab_size}, uniform_int(0, 7)),
        tokens(n % 2 == 0 ? kInt32 : kInt64, {n}),
        valid(n % 3 == 0 ? kBool : kUInt8, {n}),
        seed(kInt64, {n}),
        offset(kInt64, {n}),
        subsequence(kInt64, {n}) {
    for (std::int64_t i = 0; i < n; ++i) state(i, rng()(), rng()() >> 3, rng()());
  }
  void state(std::int64_t i, std::uint64_t s, std::uint64_t o, std::uint64_t q) {
    std::memcpy(seed.element(i), &s, 8);
    std::memcpy(offset.element(i), &o, 8);
    std::memcpy(subsequence.element(i), &q, 8);
  }
  void row(std::int64_t r, const Row& x) {
    for (std::int64_t i = 0; i < vocab; ++i) input.set(r * vocab + i, x[static_cast<std::size_t>(i)]);
  }
  Row row(std::int64_t r) {
    Row x(static_cast<std::size_t>(vocab));
    for (std::int64_t i = 0; i < vocab; ++i) x[static_cast<std::size_t>(i)] = input.get(r * vocab + i);
    return x;
  }
  std::vector<std::uint64_t> random(std::int64_t i) {
    const auto read = [&](Buffer& b) {
      std::uint64_t v;
      std::memcpy(&v, b.element(i), 8);
      return v;
    };
    return reference::random_numbers(read(seed), read(offset), read(subsequence));
  }
  void probs(const Filters& f = {}, const Tensor& indices = {}) {
    sampling_from_probs(tokens, valid, input, indices, seed, offset, subsequence, Tensor(), Tensor(),
                        Tensor(), f.top_k, f.top_p, f.min_p, f.top_k_first);
  }
  void logits(const Filters& f = {}, double temperature = 1.0, const Tensor& indices = {}) {
    sampling_from_logits(tokens, valid, input, indices, seed, offset, subsequence, Tensor(), Tensor(),
                         Tensor(), Tensor(), temperature, f.top_k, f.top_p, f.min_p, f.top_k_first);
  }
  std::int64_t token(std::int64_t i) { return static_cast<std::int64_t>(tokens.get(i)); }
  bool is_valid(std::int64_t i) { return valid.get(i) == 1.0; }
  void expect_guards() {
    tokens.expect_guards_intact("tokens");
    valid.expect_guards_intact("valid");
  }

  std::int64_t n, vocab;
  Buffer input, tokens, valid, seed, offset, subsequence;
};

template <class T>
T one_of(std::initializer_list<T> list) {
  return list.begin()[uniform_int(0, static_cast<std::int64_t>(list.size()) - 1)];
}

Filters random_filters(std::int64_t v) {
  Filters f;
  f.top_k = one_of<std::int64_t>({0, 0, 0, -1, 1, 2, 5, 50, 1000, 1024, 1025, 3000, v / 2, v - 1, v, v + 1,
                                  kHuge, std::int64_t{1} << 40});
  f.top_p = one_of({0.0f, -1.0f, 1e-45f, 1e-9f, 0.1f, 0.5f, 0.9f, 0.999999f, 1.0f, 1.0f, 1.5f});
  f.min_p = one_of({0.0f, 0.0f, -1.0f, 1e-6f, 0.01f, 0.1f, 0.5f, 1.0f, 2.0f});
  f.top_k_first = uniform_int(0, 1) == 1;
  return f;
}

enum Shape {
  kModel,
  kOneHot,
  kFlat,
  kZipf,
  kNearTies,
  kConstant,
  kLevels,
  kRising,
  kFalling,
  kHoles,
  kTiny,
  kShapes
};

Row random_probs(Shape shape, std::int64_t v) {
  Row p(static_cast<std::size_t>(v));
  const auto hot = static_cast<std::size_t>(uniform_int(0, v - 1));
  double scale = 1.0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const auto x = static_cast<double>(i);
    switch (shape) {
      case kModel:
        p[i] = std::exp(2.5 * normal());
        break;
      case kOneHot:
        p[i] = i == hot ? 1.0 : 0.0;
        break;
      case kFlat:
        p[i] = std::exp(0.05 * normal());
        break;
      case kZipf:
        p[i] = 1.0 / (x + 1.0);
        break;
      case kNearTies:
        p[i] = 1.0 + 0x1p-22 * static_cast<double>(uniform_int(0, 3));
        break;
      case kConstant:
        p[i] = 1.0;
        break;
      case kLevels:
        p[i] = static_cast<double>(uniform_int(0, 4));
        break;
      case kRising:
        p[i] = 1.0 + x;
        break;
      case kFalling:
        p[i] = static_cast<double>(v) - x;
        break;
      case kHoles:
        p[i] = uniform(0, 1) < 0.8 ? 0.0 : uniform(0, 1);
        break;
      default:
        p[i] = uniform(0, 1);
        break;
    }
  }
  if (shape == kLevels || shape == kHoles) p[hot] += 1.0;
  double sum = 0;
  for (double x : p) sum += x;
  // Normalised; unnormalised by far; subnormal.
  scale = shape == kTiny ? 0x1p-138
                         : one_of({1 / sum, 1 / sum, 1 / sum, 1.001 / sum, 3.0, 0x1p-30, 0x1p-80, 0x1p60});
  if (shape == kOneHot) scale = one_of({1.0, 1.0, 0x1p-24, 0x1p-25, 0x1p-48, 5.0, 0x1p-140});
  for (double& x : p) x *= scale;
  return p;
}

class Sampling : public OnTarget {};

constexpr std::int64_t kSizes[] = {1, 2, 3, 5, 8, 9, 31, 33, 100, 511, 513, 1000, 4097, 9001};

TEST_P(Sampling, ProbabilitiesMatchTheSortingReference) {
  for (DType dtype : float_types())
    for (std::int64_t v : kSizes)
      for (int shape = 0; shape < kShapes; ++shape) {
        if (v > 4000 && shape % 3 != uniform_int(0, 2)) continue;
        if (is_slow() && uniform_int(0, kShapes - 1) != 0) continue;
        Call call(dtype, scaled(v > 1000 ? 2 : 5, 2), v);
        for (std::int64_t r = 0; r < call.n; ++r) {
          Row p = random_probs(static_cast<Shape>(shape), v);
          if (dtype == kFloat16)
            for (double& x : p) x = std::min(x, 6e4);
          call.row(r, p);
        }
        const std::vector<unsigned char> before = call.input.bytes();
        for (int round = 0; round < scaled(8, 2); ++round) {
          const Filters f = random_filters(v);
          call.tokens.poison();
          call.valid.poison();
          call.probs(f);
          for (std::int64_t r = 0; r < call.n; ++r) {
            const Row p = call.row(r);
            if (*std::max_element(p.begin(), p.end()) == 0.0) {  // a half has no such small numbers
              EXPECT_FALSE(call.is_valid(r));
              continue;
            }
            ASSERT_EQ(call.token(r), reference::sample_probs(p, f, call.random(r)))
                << to_string(dtype) << " V=" << v << " shape " << shape << " top_k " << f.top_k << " top_p "
                << f.top_p << " min_p " << f.min_p << " top_k_first " << f.top_k_first;
            EXPECT_TRUE(call.is_valid(r));
          }
        }
        call.expect_guards();
        EXPECT_EQ(call.input.bytes(), before);
      }
}

TEST_P(Sampling, LogitsMatchTheSortingReference) {
  for (DType dtype : float_types())
    for (std::int64_t v : kSizes)
      for (int shape = 0; shape < 6; ++shape) {
        if (v > 4000 && shape % 3 != uniform_int(0, 2)) continue;
        if (is_slow() && uniform_int(0, 5) != 0) continue;
        Call call(dtype, scaled(v > 1000 ? 2 : 5, 2), v);
        const double spread = one_of({0.01, 1.0, 3.0, 20.0, 500.0});
        call.input.fill([&](std::int64_t i) {
          switch (shape) {
            case 0:
              return spread * normal() - 3.0;
            case 1:
              return static_cast<double>(uniform_int(-3, 3));
            case 2:
              return i % v == v / 3 ? 2.0 : uniform(0, 1) < 0.5 ? -kInf : spread * normal();
            case 3:
              return -7.25;
            case 4:
              return 0.001 * static_cast<double>(i % v) - 1000.0;
            default:
              return i % v < 3 ? 5.0 - static_cast<double>(i % v) : -kInf;
          }
        });
        const std::vector<unsigned char> before = call.input.bytes();
        for (int round = 0; round < scaled(8, 2); ++round) {
          const Filters f = random_filters(v);
          const float t = one_of({1.0f, 1.0f, 0.7f, 0.1f, 3.0f, 0.0f, -1.0f, 1e-30f, 0x1p-126f, 1e35f});
          call.tokens.poison();
          call.logits(f, t);
          for (std::int64_t r = 0; r < call.n; ++r) {
            ASSERT_EQ(call.token(r), reference::sample_logits(call.row(r), t, f, call.random(r)))
                << to_string(dtype) << " V=" << v << " shape " << shape << " T " << t << " top_k " << f.top_k
                << " top_p " << f.top_p << " min_p " << f.min_p << " top_k_first " << f.top_k_first;
            EXPECT_TRUE(call.is_valid(r));
          }
        }
        call.expect_guards();
        EXPECT_EQ(call.input.bytes(), before);
      }
}

TEST_P(Sampling, LargeVocabularies) {
  for (std::int64_t v : {49152, 128256, 300001}) {
    if (is_slow() && v != 49152) continue;
    Call call(kFloat32, 1, v);
    for (int shape : {kModel, kFlat, kConstant, kRising}) {
      if (is_slow() && uniform_int(0, 3) != 0) continue;
      const Row p = random_probs(static_cast<Shape>(shape), v);
      call.row(0, p);
      const Row stored = call.row(0);
      for (Filters f :
           {Filters{50, 0.9f, 0, false}, Filters{0, 0.1f, 0, false}, Filters{5000, 0.5f, 0, true}}) {
        call.probs(f);
        ASSERT_EQ(call.token(0), reference::sample_probs(stored, f, call.random(0)))
            << "V=" << v << " shape " << shape;
      }
    }
  }
}

// The filters themselves, against float64: equal unless the mass is close to the threshold.
TEST(SamplingSupport, IsThatOfFloat64) {
  std::int64_t near = 0, all = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::int64_t v = uniform_int(1, 400);
    Row values = random_probs(static_cast<Shape>(uniform_int(0, kHoles)), v);
    const bool logits = round % 2 == 1;
    const auto temperature = static_cast<float>(uniform(0.2, 2.0));
    std::vector<float> p;
    std::vector<std::uint64_t> w;
    std::vector<double> exact(values.size());
    for (double& x : values) x = round_to(kFloat32, logits ? 3.0 * normal() : x);
    if (logits) {
      p = reference::relative_probabilities(values, temperature);
      w = reference::weights(p, 0);
      exact = reference::softmax(values, temperature);
    } else {
      p.assign(values.begin(), values.end());
      w = reference::weights(p, reference::weight_exponent(*std::max_element(values.begin(), values.end())));
      exact = values;
    }
    Filters f = random_filters(v);
    // Every weight is less than 1 too small, V in all; a logit's probability has the error of its
    // exponential, and fl(min_p * max) is rounded.
    double sum_of_weights = 0;
    for (std::uint64_t x : w) sum_of_weights += static_cast<double>(x);
    const double mass_tolerance = static_cast<double>(v) / sum_of_weights + (logits ? 2e-5 : 1e-14);
    const std::vector<bool> kept = reference::support(values, p, w, f);
    const std::vector<int> expected =
        reference::support_float64(values, exact, f, mass_tolerance, logits ? 2e-5 : 0x1p-23);
    for (std::size_t i = 0; i < kept.size(); ++i, ++all) {
      if (expected[i] < 0)
        ++near;
      else
        ASSERT_EQ(static_cast<int>(kept[i]), expected[i])
            << "V=" << v << " entry " << i << " logits " << logits << " top_k " << f.top_k << " top_p "
            << f.top_p << " min_p " << f.min_p;
    }
  }
  EXPECT_LT(near, all / 4) << "the comparison has to decide most entries";
}

/// Upper tail of the chi-square distribution: the regularised incomplete gamma function Q(d / 2, x / 2).
double chi_square_tail(double x, int degrees) {
  const double a = degrees / 2.0, z = x / 2.0, scale = std::exp(-z + a * std::log(z) - std::lgamma(a));
  if (z < a + 1) {
    double term = 1 / a, sum = term;
    for (int n = 1; n < 10000 && term > sum * 1e-16; ++n) sum += term *= z / (a + n);
    return 1 - sum * scale;
  }
  double b = z + 1 - a, c = 1e300, d = 1 / b, h = d;
  for (int n = 1; n < 10000; ++n) {
    const double k = -n * (n - a);
    b += 2;
    d = 1 / (k * d + b);
    c = b + k / c;
    h *= d * c;
    if (std::fabs(d * c - 1) < 1e-15) break;
  }
  return scale * h;
}

constexpr int kChiSquareTests = 64;  // at least as many as are made; all together fail once in a million runs
constexpr double kChance = 1e-6 / kChiSquareTests;

/// Tokens of `call` against shares; entries expected fewer than 10 times are put together.
void expect_distribution(Call& call, const std::vector<double>& share, const char* what) {
  std::vector<double> seen(share.size(), 0.0);
  for (std::int64_t i = 0; i < call.n; ++i) ++seen[static_cast<std::size_t>(call.token(i))];
  const auto n = static_cast<double>(call.n);
  double x = 0, rest_seen = 0, rest = 0;
  int cells = 0;
  for (std::size_t i = 0; i < share.size(); ++i) {
    if (share[i] == 0.0) {
      ASSERT_EQ(seen[i], 0.0) << what << ": token " << i << " was cut";
      continue;
    }
    if (n * share[i] < 10) {
      rest += n * share[i];
      rest_seen += seen[i];
      continue;
    }
    x += (seen[i] - n * share[i]) * (seen[i] - n * share[i]) / (n * share[i]);
    ++cells;
  }
  if (rest >= 10) {
    x += (rest_seen - rest) * (rest_seen - rest) / rest;
    ++cells;
  }
  const double tail = cells > 1 ? chi_square_tail(x, cells - 1) : 1.0;
  EXPECT_GT(tail, kChance) << what << ": chi-square " << x << " of " << cells << " cells";
}

TEST(SamplingDistribution, ChiSquareTailIsRight) {
  EXPECT_NEAR(chi_square_tail(3.841458820694124, 1), 0.05, 1e-12);
  // Even degrees have a closed form: e^-z times the first terms of its series.
  for (int degrees : {2, 10, 100, 256})
    for (double x : {0.5, 18.3, 50.0, 120.0, 400.0}) {
      double term = std::exp(-x / 2), sum = term;
      for (int k = 1; k < degrees / 2; ++k) sum += term *= x / 2 / k;
      EXPECT_NEAR(chi_square_tail(x, degrees), sum, 1e-12 + 1e-9 * sum) << degrees << " " << x;
    }
}

TEST(SamplingDistribution, IsThatOfTheKeptWeights) {
  constexpr std::int64_t kDraws = 200000;
  int tests = 0;
  for (std::int64_t v : {5, 60, 300})
    for (const Filters& f :
         {Filters{}, Filters{20, 1.0f, 0, false}, Filters{0, 0.7f, 0, false}, Filters{0, 0.08f, 0, false},
          Filters{0, 1.0f, 0.2f, false}, Filters{0, 0.5f, 0.1f, false}, Filters{20, 0.6f, 0, false},
          Filters{20, 0.6f, 0, true}, Filters{40, 0.9f, 0.05f, true}})
      for (bool logits : {false, true}) {
        Call call(kFloat32, 2, v, kDraws);
        for (std::int64_t i = 0; i < kDraws; ++i)  // one seed and successive positions, as a request has
          call.state(i, seed() + static_cast<std::uint64_t>(tests), static_cast<std::uint64_t>(i), 0);
        Buffer indices(kInt32, {kDraws});
        indices.fill([](std::int64_t) { return 1; });
        call.row(0, Row(static_cast<std::size_t>(v), 1.0));
        call.row(1, random_probs(kModel, v));
        if (logits)
          for (std::int64_t i = 0; i < v; ++i) call.input.set(v + i, 2 * normal());
        const Row x = call.row(1);
        std::vector<float> p(x.begin(), x.end());
        int exponent = 0;
        if (logits) {
          p = reference::relative_probabilities(x, 0.9f);
          call.logits(f, 0.9f, indices);
        } else {
          exponent = reference::weight_exponent(*std::max_element(x.begin(), x.end()));
          call.probs(f, indices);
        }
        const auto w = reference::weights(p, exponent);
        const auto kept = reference::support(x, p, w, f);
        std::vector<double> share(w.size(), 0.0);
        double mass = 0;
        for (std::size_t i = 0; i < w.size(); ++i) mass += kept[i] ? static_cast<double>(w[i]) : 0.0;
        for (std::size_t i = 0; i < w.size(); ++i)
          share[i] = kept[i] ? static_cast<double>(w[i]) / mass : 0.0;
        expect_distribution(call, share,
                            ("V=" + std::to_string(v) + " top_k " + std::to_string(f.top_k) + " top_p " +
                             std::to_string(f.top_p) + " min_p " + std::to_string(f.min_p))
                                .c_str());
        ++tests;
      }
  EXPECT_LE(tests, kChiSquareTests);
}

// Successive positions and subsequences of one seed have to be independent: pairs of draws.
TEST(SamplingDistribution, PairsOfPositionsAreIndependent) {
  constexpr std::int64_t kDraws = 400000;
  for (bool positions : {true, false}) {
    Call call(kFloat32, 1, 16, kDraws);
    for (std::int64_t i = 0; i < kDraws; ++i)
      call.state(i, seed(), positions ? static_cast<std::uint64_t>(i) : 7,
                 positions ? 3 : static_cast<std::uint64_t>(i));
    call.row(0, Row(16, 0.0625));
    Buffer indices(kInt64, {kDraws});
    indices.fill([](std::int64_t) { return 0; });
    call.probs({}, indices);
    std::vector<double> pairs(256, 0.0);
    for (std::int64_t i = 0; i + 1 < kDraws; i += 2)
      ++pairs[static_cast<std::size_t>(16 * call.token(i) + call.token(i + 1))];
    double x = 0;
    for (double c : pairs) x += (c - kDraws / 512.0) * (c - kDraws / 512.0) / (kDraws / 512.0);
    EXPECT_GT(chi_square_tail(x, 255), kChance);
  }
}

// flashinfer-ai/flashinfer#2402: rows in which nothing can be found gave ids far outside.
TEST_P(Sampling, BadRowsAreInvalidAndStayAlone) {
  const std::int64_t v = 1000;
  Call call(kFloat32, 3, v);
  for (std::int64_t r = 0; r < 3; ++r) call.row(r, random_probs(kModel, v));
  const Row good = call.row(1);
  const std::vector<Filters> samplers = {{},
                                         {50, 1, 0, false},
                                         {0, 0.9f, 0, false},
                                         {0, 1, 0.1f, false},
                                         {50, 0.9f, 0, false},
                                         {50, 0.9f, 0.1f, true},
                                         {2000, 0.9f, 0, false},
                                         {1, 1, 0, false},
                                         {0, 0.0f, 0, false}};
  std::vector<Row> bad(6, good);
  bad[0] = Row(1000, kNan);
  bad[1][static_cast<std::size_t>(uniform_int(0, 999))] = kNan;
  bad[2] = Row(1000, 0.0);
  bad[3][999] = -0.001;
  bad[4] = Row(1000, -1.0);
  bad[5][500] = kInf;
  for (const Filters& f : samplers) {
    if (is_slow() && uniform_int(0, 3) != 0) continue;
    call.row(1, good);
    call.probs(f);
    const std::int64_t first = call.token(0), last = call.token(2);
    EXPECT_TRUE(call.is_valid(1));
    for (const Row& row : bad) {
      call.row(1, row);
      call.tokens.poison();
      call.probs(f);
      EXPECT_EQ(call.token(1), 0);
      EXPECT_FALSE(call.is_valid(1));
      EXPECT_EQ(call.token(0), first);
      EXPECT_EQ(call.token(2), last);
      EXPECT_TRUE(call.is_valid(0) && call.is_valid(2));
    }
    // Negative zero is a probability.
    Row zero = good;
    zero[3] = -0.0;
    call.row(1, zero);
    call.probs(f);
    EXPECT_TRUE(call.is_valid(1));
  }
  std::vector<Row> bad_logits(4, good);
  bad_logits[0] = Row(1000, kNan);
  bad_logits[1][7] = kNan;
  bad_logits[2] = Row(1000, -kInf);
  bad_logits[3][999] = kInf;
  for (const Filters& f : samplers)
    for (double t : {1.0, 0.0})
      for (const Row& row : bad_logits) {
        if (is_slow() && uniform_int(0, 7) != 0) continue;
        call.row(1, row);
        call.tokens.poison();
        call.logits(f, t);
        EXPECT_EQ(call.token(1), 0);
        EXPECT_FALSE(call.is_valid(1));
        EXPECT_TRUE(call.is_valid(0) && call.is_valid(2));
      }
}

// flashinfer-ai/flashinfer#384: a one-hot row with a huge top-k gave a random integer.
TEST_P(Sampling, OneHotRows) {
  for (std::int64_t v : {1, 2, 3, 31, 33, 32000, 128256}) {
    if (is_slow() && v > 32000) continue;
    const std::int64_t draws = scaled(v > 100 ? 500 : 10000, 2), hot = v > 1 ? 1 : 0;
    Call call(kFloat32, 1, v, draws);
    Row p(static_cast<std::size_t>(v), 0.0);
    p[static_cast<std::size_t>(hot)] = 1.0;
    call.row(0, p);
    Buffer indices(kInt32, {draws});
    indices.fill([](std::int64_t) { return 0; });
    for (const Filters& f :
         {Filters{kHuge, 1.0f, 0, false}, Filters{kHuge, 0.5f, 0, true}, Filters{2, 1.0f, 0, false}}) {
      call.probs(f, indices);
      for (std::int64_t i = 0; i < draws; ++i) ASSERT_EQ(call.token(i), hot) << "V=" << v;
    }
  }
}

std::set<std::int64_t> tokens_seen(Call& call) {
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < call.n; ++i) seen.insert(call.token(i));
  return seen;
}

/// Many draws from one row, as one call with repeated indices.
struct Draws : Call {
  Draws(const Row& x, std::int64_t draws)
      : Call(kFloat32, 1, static_cast<std::int64_t>(x.size()), draws), indices(kInt32, {draws}) {
    row(0, x);
    indices.fill([](std::int64_t) { return 0; });
  }
  Buffer indices;
};

// flashinfer-ai/flashinfer#3774: every token tied with the cut was accepted.
TEST_P(Sampling, TiesAtTheCut) {
  Draws draws({0.4, 0.3, 0.3, 0.0}, scaled(100000, 64));
  for (const Filters& f :
       {Filters{2, 1.0f, 0, false}, Filters{0, 0.65f, 0, false}, Filters{2, 0.9f, 0, true}}) {
    draws.probs(f, draws.indices);
    EXPECT_EQ(tokens_seen(draws), (std::set<std::int64_t>{0, 1}));
    if (is_slow()) continue;  // shares need many draws; there the bytes are compared with the CPU's
    std::int64_t zeros = 0;
    for (std::int64_t i = 0; i < draws.n; ++i) zeros += draws.token(i) == 0;
    EXPECT_NEAR(static_cast<double>(zeros) / 100000.0, 4.0 / 7.0, 0.009);
  }
}

// flashinfer-ai/flashinfer#2202: the entry in which the mass reaches top-p belongs to the support.
TEST(SamplingSupport, HoldsTheBoundaryEntry) {
  Row p(500);
  for (std::size_t i = 0; i < 500; ++i) p[i] = static_cast<double>(500 - i) / 125250.0;
  std::shuffle(p.begin(), p.end(), rng());
  for (double& x : p) x = round_to(kFloat32, x);
  const std::vector<float> floats(p.begin(), p.end());
  const auto kept = reference::support(p, floats, reference::weights(floats, 0), {0, 0.9f, 0, false});
  EXPECT_EQ(std::count(kept.begin(), kept.end(), true), 343);
  Draws draws(p, 200000);
  draws.probs({0, 0.9f, 0, false}, draws.indices);
  const std::set<std::int64_t> seen = tokens_seen(draws);
  EXPECT_GE(seen.size(), 338u);  // the rarest kept entry is expected 280 times
  for (std::int64_t t : seen) EXPECT_TRUE(kept[static_cast<std::size_t>(t)]);
  EXPECT_EQ(seen.size(), 343u);
}

// flashinfer-ai/flashinfer#1049: a search between infinities never ended.
TEST_P(Sampling, RowsOfMinusInfinity) {
  Call call(kFloat32, scaled(16, 2), 1000);
  for (std::int64_t r = 0; r < call.n; ++r) {
    Row x(1000, -kInf);
    if (r % 2 == 1)
      for (double& v : x) v = normal();
    else
      for (std::size_t i = 0; i < 3; ++i) x[100 + 300 * i] = 5.0 - static_cast<double>(i);
    call.row(r, x);
  }
  for (std::int64_t k : {1, 3, 10, 999, 1000, 1001})
    for (float top_p : {1.0f, 0.99f, 0.1f}) {
      call.logits({k, top_p, 0, false});
      for (std::int64_t r = 0; r < call.n; r += 2) {
        EXPECT_TRUE(call.is_valid(r));
        EXPECT_TRUE(call.token(r) == 100 || (k > 1 && (call.token(r) == 400 || call.token(r) == 700)));
      }
    }
}

// sgl-project/sglang#36173: top-p of what top-k left, or of the whole row.
TEST_P(Sampling, OrderOfTheFilters) {
  Row p = {0.35, 0.25, 0.20, 0.05, 0.03};
  p.resize(17, 0.01);
  const std::vector<double> joint = {0.411765, 0.294118, 0.235294, 0.058824}, first = {0.4375, 0.3125, 0.25};
  for (bool top_k_first : {false, true}) {
    const std::vector<double>& share = top_k_first ? first : joint;
    for (bool logits : {false, true}) {
      Row x = p;
      if (logits)
        for (double& v : x) v = std::log(v);
      Draws draws(x, scaled(100000, 64));
      const double each = 1.0 / static_cast<double>(draws.n);
      const Filters f{4, 0.82f, 0, top_k_first};
      if (logits)
        draws.logits(f, 1.0, draws.indices);
      else
        draws.probs(f, draws.indices);
      std::vector<double> seen(17, 0.0);
      for (std::int64_t i = 0; i < draws.n; ++i) seen[static_cast<std::size_t>(draws.token(i))] += each;
      for (std::size_t i = 0; i < 17; ++i)
        if (i >= share.size()) {
          EXPECT_EQ(seen[i], 0.0);
        } else if (!is_slow()) {
          EXPECT_NEAR(seen[i], share[i], 0.009);
        }
    }
  }
}

/// The counter whose Philox block has `low` as its low half: ten rounds backwards. A round is
/// (c0, c1, c2, c3) -> (hi(B c2) ^ c1 ^ k0, lo(B c2), hi(A c0) ^ c3 ^ k1, lo(A c0)) with odd A and B.
std::pair<std::uint64_t, std::uint64_t> counter_for(std::uint64_t low, std::uint64_t high,
                                                    std::uint64_t key) {
  const auto inverse = [](std::uint32_t a) {
    std::uint32_t x = a;  // right modulo 8; each step doubles the bits
    for (int i = 0; i < 5; ++i) x *= 2 - a * x;
    return x;
  };
  const std::uint32_t a = 0xd2511f53u, b = 0xcd9e8d57u;
  std::uint32_t c[4] = {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32),
                        static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
  for (std::uint32_t round = 10; round-- > 0;) {
    const std::uint32_t k0 = static_cast<std::uint32_t>(key) + round * 0x9e3779b9u,
                        k1 = static_cast<std::uint32_t>(key >> 32) + round * 0xbb67ae85u;
    const std::uint32_t c2 = c[1] * inverse(b), c0 = c[3] * inverse(a);
    const auto b_high = static_cast<std::uint32_t>(std::uint64_t{b} * c2 >> 32),
               a_high = static_cast<std::uint32_t>(std::uint64_t{a} * c0 >> 32);
    const std::uint32_t c1 = c[0] ^ b_high ^ k0, c3 = c[2] ^ a_high ^ k1;
    c[0] = c0;
    c[1] = c1;
    c[2] = c2;
    c[3] = c3;
  }
  return {c[0] | std::uint64_t{c[1]} << 32, c[2] | std::uint64_t{c[3]} << 32};
}

/// Gives output i a state whose r_0 is the number wanted.
void inject(Call& call, std::int64_t i, std::uint64_t r0) {
  for (;;) {
    const std::uint64_t key = rng()();
    const auto [low, high] = counter_for(r0, rng()(), key);
    if (low % 8 != 0) continue;  // counters of r_0 are multiples of 8
    call.state(i, key, low / 8, high);
    ASSERT_EQ(call.random(i)[0], r0);
    return;
  }
}

// pytorch/pytorch#4858: random numbers at the ends of their range chose entries of probability zero.
TEST_P(Sampling, EndsOfTheRandomRange) {
  const std::uint64_t numbers[] = {0, std::uint64_t{1} << 40, std::uint64_t{1} << 63, ~std::uint64_t{0} << 40,
                                   ~std::uint64_t{0}};
  const std::int64_t expected[] = {1, 1, 2, 2, 2};
  for (double sum : {1.0, 0.999, 1.001, 1e-30, 1e20})
    for (const Filters& f :
         {Filters{}, Filters{2, 1.0f, 0, false}, Filters{4, 1.0f, 0, false}, Filters{0, 1.0f, 0.9f, false}}) {
      Call call(kFloat32, 5, 5);
      for (std::int64_t i = 0; i < 5; ++i) {
        call.row(i, {0, sum / 2, sum / 2, 0, 0});
        inject(call, i, numbers[i]);
      }
      call.probs(f);
      for (std::int64_t i = 0; i < 5; ++i)
        EXPECT_EQ(call.token(i), expected[i]) << "sum " << sum << " number " << i;
      for (std::int64_t i = 0; i < 5; ++i) call.row(i, {-kInf, 1.0, 1.0, -kInf, -kInf});
      call.logits(f);
      for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(call.token(i), expected[i]);
    }
}

TEST(SamplingZeros, AreNeverDrawn) {
  Draws draws(random_probs(kHoles, 50000), 20000);
  const Row p = draws.row(0);
  for (const Filters& f : {Filters{}, Filters{20000, 1.0f, 0, false}, Filters{0, 0.999f, 0, false}}) {
    draws.probs(f, draws.indices);
    for (std::int64_t i = 0; i < draws.n; ++i) ASSERT_GT(p[static_cast<std::size_t>(draws.token(i))], 0.0);
  }
}

// abetlen/llama-cpp-python#220: values that mean "off" and values that mean "the first".
TEST_P(Sampling, EdgeValuesOfParameters) {
  Draws draws({1, 2, 3, 4}, scaled(40000, 6));
  const auto call = [&](double t, std::int64_t k, double p, double m, bool first) {
    draws.logits({k, static_cast<float>(p), static_cast<float>(m), first}, t, draws.indices);
  };
  std::vector<double> plain;
  for (std::int64_t k :
       {std::int64_t{0}, std::int64_t{-1}, std::int64_t{4}, std::int64_t{5}, kHuge, std::int64_t{-1} << 40})
    for (double p : {1.0, 1.5, kInf})
      for (double m : {0.0, -1.0}) {
        call(1.0, k, p, m, false);
        if (plain.empty()) {
          plain = draws.tokens.values();
          const double share[] = {0.032, 0.087, 0.237, 0.644};
          for (std::int64_t t = 0; t < scaled(4, 0); ++t)
            EXPECT_NEAR(
                static_cast<double>(std::count(plain.begin(), plain.end(), static_cast<double>(t))) / 40000.0,
                share[t], 0.015);
        }
        EXPECT_EQ(draws.tokens.values(), plain);
      }
  const std::vector<double> always(static_cast<std::size_t>(draws.n), 3.0);
  for (bool first : {false, true}) {
    call(1.0, 1, 1.0, 0.0, first);
    EXPECT_EQ(draws.tokens.values(), always);
    for (double p : {0.0, -0.0, -1.0, 1e-45, -kInf}) {
      call(1.0, 0, p, 0.0, first);
      EXPECT_EQ(draws.tokens.values(), always);
    }
    for (double t : {0.0, -0.0, -1.0, 1e-40, -kInf}) {
      call(t, 0, 1.0, 0.0, first);
      EXPECT_EQ(draws.tokens.values(), always);
    }
    for (double m : {1.0, 2.0, kInf}) {
      call(1.0, 0, 1.0, m, first);
      EXPECT_EQ(draws.tokens.values(), always);
    }
  }
  call(kInf, 0, 1.0, 0.0, false);  // uniform
  const std::vector<double> flat = draws.tokens.values();
  if (is_slow()) return;
  for (double t : {0.0, 1.0, 2.0, 3.0})
    EXPECT_NEAR(static_cast<double>(std::count(flat.begin(), flat.end(), t)) / 40000.0, 0.25, 0.015);
}

TEST_P(Sampling, ParametersByRowAndStateByOutput) {
  const std::int64_t rows = 5, v = 333, n = scaled(40, 8);
  Call call(is_slow() ? kFloat32 : kBFloat16, rows, v, n);  // one simulated GPU has no bfloat16
  for (std::int64_t r = 0; r < rows; ++r) call.row(r, random_probs(kModel, v));
  Buffer indices(kInt64, {n}), top_k(kInt32, {rows}, 0, {3}), top_p(kFloat32, {rows}),
      min_p(kFloat32, {rows}), temperature(kFloat32, {rows});
  indices.fill([&](std::int64_t) { return static_cast<double>(uniform_int(0, rows - 1)); });
  const std::vector<Filters> f = {{0, 0.5f, 0, false},
                                  {7, 1, 0, false},
                                  {50, 0.9f, 0.02f, false},
                                  {0, 1, 0.1f, false},
                                  {-1, 2, 0, false}};
  top_k.fill([&](std::int64_t r) { return static_cast<double>(f[static_cast<std::size_t>(r)].top_k); });
  top_p.fill([&](std::int64_t r) { return f[static_cast<std::size_t>(r)].top_p; });
  min_p.fill([&](std::int64_t r) { return f[static_cast<std::size_t>(r)].min_p; });
  temperature.fill([](std::int64_t r) { return 0.1 + 0.2 * static_cast<double>(r); });
  sampling_from_probs(call.tokens, Tensor(), call.input, indices, call.seed, call.offset, call.subsequence,
                      top_k, top_p, min_p);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto r = static_cast<std::int64_t>(indices.get(i));
    EXPECT_EQ(call.token(i),
              reference::sample_probs(call.row(r), f[static_cast<std::size_t>(r)], call.random(i)));
  }
  sampling_from_logits(call.tokens, call.valid, call.input, indices, call.seed, call.offset, call.subsequence,
                       temperature, top_k, top_p, min_p);
  for (std::int64_t i = 0; i < n; ++i) {
    const auto r = static_cast<std::int64_t>(indices.get(i));
    EXPECT_EQ(call.token(i), reference::sample_logits(call.row(r), static_cast<float>(temperature.get(r)),
                                                      f[static_cast<std::size_t>(r)], call.random(i)));
  }
  // A NaN among the parameters makes its row invalid, and no other.
  top_p.set(2, kNan);
  sampling_from_logits(call.tokens, call.valid, call.input, indices, call.seed, call.offset, call.subsequence,
                       temperature, top_k, top_p, min_p);
  for (std::int64_t i = 0; i < n; ++i) {
    EXPECT_EQ(call.is_valid(i), indices.get(i) != 2.0);
    EXPECT_TRUE(indices.get(i) != 2.0 || call.token(i) == 0);
  }
  // No subsequence: zeros. A stride of 0 shares one seed.
  for (std::int64_t i = 0; i < n; ++i) call.state(i, 99, static_cast<std::uint64_t>(i), 0);
  call.probs({}, indices);
  const std::vector<double> expected = call.tokens.values();
  const Tensor seeds = call.seed.tensor(), one_seed(seeds.data(), kInt64, {n}, {0}, seeds.device());
  sampling_from_probs(call.tokens, Tensor(), call.input, indices, one_seed, call.offset);
  EXPECT_EQ(call.tokens.values(), expected);
}

TEST_P(Sampling, IndicesOutsideAreReported) {
  Call call(kFloat32, 2, 10, 4);
  call.row(0, random_probs(kModel, 10));
  call.row(1, random_probs(kModel, 10));
  for (double bad : {2.0, -1.0, 2147483647.0}) {
    Buffer indices(kInt32, {4});
    indices.fill([&](std::int64_t i) { return i == 1 ? bad : 0.0; });
    call.probs({}, indices);
    EXPECT_FALSE(call.is_valid(1));
    EXPECT_EQ(call.token(1), 0);
    EXPECT_TRUE(call.is_valid(0) && call.is_valid(2) && call.is_valid(3));
    expect_error([] { check(device()); }, {"sampling_from_probs: indices", "at 1"});
    EXPECT_NO_THROW(check(device()));
  }
}

TEST_P(Sampling, Empty) {
  Call call(kFloat32, 0, 10);
  EXPECT_NO_THROW(call.probs());
  EXPECT_NO_THROW(call.logits());
  Call nothing(kFloat32, 0, 0);
  EXPECT_NO_THROW(nothing.probs());
}

// apache/tvm#12274: rows of negative numbers, of lengths that leave lanes empty.
TEST_P(Sampling, NegativeLogitsOfOddLengths) {
  for (std::int64_t v : {1, 2, 3, 11, 17, 31, 33})
    for (double low : {0.0, -1000.0}) {
      Call call(kFloat32, 1, v);
      call.input.fill([&](std::int64_t i) { return low - static_cast<double>(i + 1); });
      for (const Filters& f : {Filters{1, 1, 0, false}, Filters{0, 0, 0, false}, Filters{0, 1, 1, false}}) {
        call.logits(f);
        EXPECT_EQ(call.token(0), 0);
        EXPECT_TRUE(call.is_valid(0));
      }
    }
}

MUSAIC_EVERY_TARGET(Sampling);

TEST(SamplingBits, SameEverywhereAndPerRow) {
  for (std::int64_t v : {3, 33, 1001, 5000}) {
    const std::int64_t n = 6;
    Call call(kFloat32, n, v);
    call.input.fill_normal(2.0);
    for (int round = 0; round < 6; ++round) {
      const Filters f = random_filters(v);
      std::vector<unsigned char> batch;
      expect_same_bytes_everywhere([&] {
        call.tokens.poison();
        call.logits(f, 0.8);
        return batch = call.tokens.bytes();
      });
      const std::int64_t r = uniform_int(0, n - 1);
      Buffer one(kInt32, {1});
      const auto part = [&](Buffer& b) { return b.tensor().slice(0, r, r + 1); };
      sampling_from_logits(one, Tensor(), part(call.input), Tensor(), part(call.seed), part(call.offset),
                           part(call.subsequence), Tensor(), Tensor(), Tensor(), Tensor(), 0.8, f.top_k,
                           f.top_p, f.min_p, f.top_k_first);
      EXPECT_EQ(one.get(0), call.tokens.get(r));
    }
  }
}

/// float32 sums of weights, rounded to nearest even.
float mass_as_float(reference::BigInteger mass) {
  int shift = 0;
  while ((mass >> shift) >= (1 << 24)) ++shift;
  auto m = static_cast<std::int64_t>(mass >> shift);
  const reference::BigInteger rest = mass - (static_cast<reference::BigInteger>(m) << shift),
                              half = shift > 0 ? reference::BigInteger{1} << (shift - 1) : 1;
  if (rest > half || (rest == half && m % 2 != 0)) ++m;
  return static_cast<float>(std::ldexp(static_cast<double>(m), shift - 40));
}

class Renorm : public OnTarget {};

TEST_P(Renorm, IsTheShareOfTheKeptMass) {
  for (DType dtype : float_types())
    for (std::int64_t v : {1, 2, 3, 7, 8, 9, 33, 100, 513, 1000, 4097, 9001})
      for (int shape = 0; shape < kShapes; ++shape) {
        if (v > 4000 && shape % 3 != uniform_int(0, 2)) continue;
        if (is_slow() && (v > 8192 || uniform_int(0, 2 * kShapes - 1) != 0)) continue;
        const std::int64_t rows = scaled(3, 1);
        Buffer in(dtype, {rows, v}, uniform_int(0, 7)), out(dtype, {rows, v}, uniform_int(0, 7)),
            top_k(kInt64, {rows}), top_p(kFloat32, {rows}, 0, {2});
        for (std::int64_t r = 0; r < rows; ++r) {
          const Row p = random_probs(static_cast<Shape>(shape), v);
          for (std::int64_t i = 0; i < v; ++i) {
            const double x = p[static_cast<std::size_t>(i)];
            in.set(r * v + i, dtype == kFloat16 ? std::min(x, 6e4) : x);
          }
        }
        for (bool by_mass : {false, true}) {
          std::vector<Filters> filters(static_cast<std::size_t>(rows));
          for (Filters& f : filters) {
            f = random_filters(v);
            f.min_p = 0;
            f.top_k_first = false;
            if (by_mass)
              f.top_k = 0;
            else
              f.top_p = 1.0f;
          }
          top_k.fill([&](std::int64_t r) {
            return static_cast<double>(filters[static_cast<std::size_t>(r)].top_k);
          });
          top_p.fill([&](std::int64_t r) { return filters[static_cast<std::size_t>(r)].top_p; });
          out.poison();
          if (by_mass)
            top_p_renorm_probs(out, in, top_p);
          else
            top_k_renorm_probs(out, in, top_k);
          for (std::int64_t r = 0; r < rows; ++r) {
            std::vector<float> p;
            Row values;
            for (std::int64_t i = 0; i < v; ++i) {
              values.push_back(in.get(r * v + i));
              p.push_back(static_cast<float>(values.back()));
            }
            const float max = *std::max_element(p.begin(), p.end());
            const int exponent = max > 0 ? reference::weight_exponent(max) : 0;
            const auto w = reference::weights(p, exponent);
            const auto kept = reference::support(values, p, w, filters[static_cast<std::size_t>(r)]);
            reference::BigInteger mass = 0;
            for (std::size_t i = 0; i < w.size(); ++i)
              if (kept[i]) mass += w[i];
            const float sum = mass_as_float(mass);
            for (std::int64_t i = 0; i < v; ++i) {
              const auto at = static_cast<std::size_t>(i);
              const float share = kept[at] ? std::ldexp(p[at], -exponent) / sum : 0.0f;
              ASSERT_EQ(out.get(r * v + i), round_to(dtype, share))
                  << to_string(dtype) << " V=" << v << " shape " << shape << " entry " << i << " top_k "
                  << filters[static_cast<std::size_t>(r)].top_k << " top_p "
                  << filters[static_cast<std::size_t>(r)].top_p;
            }
          }
          out.expect_guards_intact("out");
        }
      }
}

TEST_P(Renorm, MaskKeepsTheFirstK) {
  for (DType dtype : float_types())
    for (std::int64_t v : {1, 5, 33, 1000, 9001}) {
      Buffer in(dtype, {2, v}, uniform_int(0, 7)), out(dtype, {2, v});
      in.fill([&](std::int64_t i) {
        return i % 11 == 3 ? -kInf : i % 501 == 400 ? kInf : std::floor(4 * normal()) / 2;
      });
      if (v > 100) in.set(17, kNan);
      for (std::int64_t k : {std::int64_t{1}, one_of<std::int64_t>({2, 7, 50}),
                             one_of<std::int64_t>({900, 3000, v - 1}), one_of<std::int64_t>({0, v, kHuge})}) {
        if (is_slow() && uniform_int(0, 2) != 0) continue;
        out.poison();
        top_k_mask_logits(out, in, Tensor(), k);
        for (std::int64_t r = 0; r < 2; ++r) {
          Row x;
          for (std::int64_t i = 0; i < v; ++i) x.push_back(in.get(r * v + i));
          Row order = x;
          for (double& value : order) value = value == value ? value : -kInf;
          const auto places = reference::total_order(order);
          Row expected(x.size(), -kInf);
          for (std::int64_t i = 0; i < v && (k <= 0 || i < k); ++i) {
            const auto at = static_cast<std::size_t>(places[static_cast<std::size_t>(i)]);
            expected[at] = x[at];
          }
          for (std::int64_t i = 0; i < v; ++i) {
            const double y = out.get(r * v + i), value = x[static_cast<std::size_t>(i)];
            ASSERT_TRUE(value == value ? y == expected[static_cast<std::size_t>(i)] : y != y)
                << to_string(dtype) << " V=" << v << " k=" << k << " entry " << i << ": " << y;
          }
        }
      }
    }
}

TEST_P(Renorm, BadRowsStayAloneAndRowsMayBeWrittenInPlace) {
  const std::int64_t v = 300;
  const double bad[] = {kNan, -0.5, kInf};
  for (int kind = 0; kind < 4; ++kind) {
    Buffer in(kFloat32, {3, v}), out(kFloat32, {3, v}), in_place(kFloat32, {3, v});
    in.fill([](std::int64_t) { return std::exp(normal()); });
    if (kind < 3)
      in.set(v + 123, bad[kind]);
    else
      for (std::int64_t i = 0; i < v; ++i) in.set(v + i, 0.0);
    in_place.fill([&](std::int64_t i) { return in.get(i); });
    top_p_renorm_probs(out, in, Tensor(), 0.7);
    const Tensor view = in_place.tensor();
    top_p_renorm_probs(view, view, Tensor(), 0.7);
    EXPECT_EQ(out.bytes(), in_place.bytes());
    double sums[3] = {};
    for (std::int64_t i = 0; i < 3 * v; ++i) sums[i / v] += out.get(i);
    EXPECT_NEAR(sums[0], 1.0, 1e-5);
    EXPECT_NEAR(sums[2], 1.0, 1e-5);
    for (std::int64_t i = v; i < 2 * v; ++i) {
      const double y = out.get(i);
      EXPECT_TRUE(kind < 3 ? y != y : y == 0.0);
    }
  }
  Buffer none(kFloat32, {0, v}), rows(kFloat32, {2, v}), top_p(kFloat32, {2});
  top_k_renorm_probs(none, none, Tensor(), 5);
  rows.fill([](std::int64_t) { return 1.0; });
  top_p.set(0, 0.5);
  top_p.set(1, kNan);
  Buffer out(kFloat32, {2, v});
  top_p_renorm_probs(out, rows, top_p);
  EXPECT_EQ(out.get(0), static_cast<double>(1.0f / 150.0f));
  EXPECT_EQ(out.get(150), 0.0);  // ties go by index
  EXPECT_TRUE(out.get(v) != out.get(v));
}

MUSAIC_EVERY_TARGET(Renorm);

TEST(RenormErrors, NameTheArgument) {
  Buffer probs(kFloat32, {2, 8}), out(kFloat32, {2, 8}), narrow(kFloat32, {2, 7}), half(kFloat16, {2, 8}),
      k3(kInt32, {3}), p64(kFloat64, {2});
  probs.fill_normal();
  expect_error([&] { top_k_renorm_probs(narrow, probs); },
               {"top_k_renorm_probs: renorm_probs: shape [2, 7]"});
  expect_error([&] { top_p_renorm_probs(half, probs); },
               {"top_p_renorm_probs: renorm_probs: dtype float16", "float32"});
  expect_error([&] { top_k_renorm_probs(out, probs, k3); }, {"top_k_renorm_probs: top_k: shape [3]"});
  expect_error([&] { top_p_renorm_probs(out, probs, p64); }, {"top_p_renorm_probs: top_p: dtype float64"});
  expect_error([&] { top_p_renorm_probs(out, probs, Tensor(), kNan); },
               {"top_p_renorm_probs: top_p_scalar: NaN"});
}

TEST(SamplingErrors, NameTheArgument) {
  Call c(kFloat32, 4, 8);
  c.input.fill_normal();
  Buffer five(kInt32, {5}), floats(kFloat32, {4}), ints(kInt32, {4, 8}), three(kFloat32, {3}),
      seeds32(kInt32, {4}), none(kFloat32, {4, 0});
  const Tensor no;
  const auto call = [&](const Tensor& tokens, const Tensor& valid, const Tensor& logits,
                        const Tensor& indices, const Tensor& seed, const Tensor& temperature = {},
                        const Tensor& top_k = {}, double top_p = 1.0) {
    sampling_from_logits(tokens, valid, logits, indices, seed, c.offset, no, temperature, top_k, no, no, 1.0,
                         0, top_p);
  };
  expect_error([&] { call(five, no, c.input, no, c.seed); },
               {"sampling_from_logits: tokens: shape [5]", "num_rows=4", "logits"});
  expect_error([&] { call(floats, no, c.input, no, c.seed); },
               {"sampling_from_logits: tokens: dtype float32", "int32, int64"});
  expect_error([&] { call(c.tokens, floats, c.input, no, c.seed); },
               {"sampling_from_logits: valid: dtype float32", "bool, uint8"});
  expect_error([&] { call(c.tokens, no, ints, no, c.seed); }, {"sampling_from_logits: logits: dtype int32"});
  expect_error([&] { call(c.tokens, no, c.input, five, c.seed); },
               {"sampling_from_logits: indices: shape [5]", "num_outputs=4"});
  expect_error([&] { call(c.tokens, no, c.input, no, seeds32); },
               {"sampling_from_logits: seed: dtype int32", "int64"});
  expect_error([&] { call(c.tokens, no, c.input, no, no); }, {"sampling_from_logits: seed: no tensor"});
  expect_error([&] { call(c.tokens, no, c.input, no, c.seed, three); },
               {"sampling_from_logits: temperature: shape [3]", "num_rows=4"});
  expect_error([&] { call(c.tokens, no, c.input, no, c.seed, no, floats); },
               {"sampling_from_logits: top_k: dtype float32", "int32, int64"});
  expect_error([&] { call(c.tokens, no, c.input, no, c.seed, no, no, kNan); },
               {"sampling_from_logits: top_p_scalar: NaN"});
  expect_error([&] { call(c.tokens, no, none, no, c.seed); },
               {"sampling_from_logits: logits: rows of 0 entries", "at least one"});
  expect_error([&] { call(c.seed, no, c.input, no, c.seed); },
               {"sampling_from_logits: tokens: memory that overlaps seed"});
  expect_error([&] { sampling_from_probs(c.tokens, no, ints, no, c.seed, c.offset); },
               {"sampling_from_probs: probs: dtype int32"});
  const Tensor huge(c.input.tensor().data(), kFloat32, {4, (std::int64_t{1} << 22) + 1}, {0, 1});
  expect_error([&] { call(c.tokens, no, huge, no, c.seed); },
               {"sampling_from_logits: logits: rows of 4194305 entries", "at most 4194304"});
  EXPECT_EQ(sampling_workspace_bytes(4096, 128256), 0);
  EXPECT_NO_THROW(call(c.tokens, c.valid, c.input, no, c.seed));
}

}  // namespace
}  // namespace musaic::testing
