// Conformance of a backend's device layer; compiled once per target.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <future>
#include <limits>
#include <vector>

#include "backends/cpu/group.h"
#include "backends/cpu/quotient.h"
#include "device/device.h"
#include "ops/softmax/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

namespace dev = musaic::MUSAIC_TARGET;

/// Error in units of the last place of the exact result.
double ulps(float got, double exact) {
  if (std::isnan(got) && std::isnan(exact)) return 0;
  if (std::isinf(got) && std::fabs(exact) > 3.4028235677973366e38) return 0;
  int e = 0;
  std::frexp(exact, &e);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, std::max(e, -125) - 24);
}

TEST(Device, WideningAndNarrowingAreExact) {
  for (std::uint32_t u = 0; u < 65536; ++u) {
    const auto bits = static_cast<std::uint16_t>(u);
    for (DType t : {kFloat16, kBFloat16}) {
      const double expected = to_double(&bits, t);
      const float got = t == kFloat16 ? dev::load(dev::Half{bits}) : dev::load(dev::BFloat16{bits});
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got));
        continue;
      }
      ASSERT_EQ(static_cast<double>(got), expected) << u;
      ASSERT_EQ(std::signbit(got), std::signbit(expected)) << u;
    }
  }
  for (int round = 0; round < 400000; ++round) {
    auto u = static_cast<std::uint32_t>(rng()());
    if (round % 4 == 1) u = (u & 0xffffe000u) | 0x1000u;  // ties of float16
    if (round % 4 == 2) u = (u & 0xffff0000u) | 0x8000u;  // ties of bfloat16
    float v;
    std::memcpy(&v, &u, 4);
    std::uint16_t expected;
    dev::Half h[8];
    dev::BFloat16 b[8];
    dev::store(h, v);
    dev::store(b, v);
    from_double(&expected, kFloat16, v);
    ASSERT_EQ(h->bits, std::isnan(v) ? 0x7e00 : expected) << u;
    from_double(&expected, kBFloat16, v);
    ASSERT_EQ(b->bits, std::isnan(v) ? 0x7fc0 : expected) << u;
    const dev::F32x8 all = dev::canonical(dev::all<dev::F32x8>(v));
    const std::uint16_t one_half = h->bits, one_bf16 = b->bits;
    dev::store8(h, all);
    dev::store8(b, all);
    ASSERT_EQ(h[7].bits, one_half) << u;
    ASSERT_EQ(b[7].bits, one_bf16) << u;
  }
}

/// The worst of what check_function saw, in units of what is allowed; infinity where scalar and vector form
/// differ.
struct Worst {
  double error = 0;
  float at = 0;
};

template <class Scalar, class Vector, class Allowed>
Worst worst_of(std::uint32_t start, std::uint32_t stride, std::uint64_t begin, std::uint64_t end,
               Scalar scalar, Vector vector, double (*exact)(double), Allowed allowed, double absolute) {
  Worst worst;
  for (std::uint64_t i = begin; i < end; i += 8) {
    std::uint32_t u[8], lanes[8];
    float x[8];
    for (std::uint32_t k = 0; k < 8; ++k) u[k] = start + (static_cast<std::uint32_t>(i) + k) * stride;
    std::memcpy(x, u, sizeof x);
    dev::F32x8 v;
    std::memcpy(&v, x, sizeof v);
    v = vector(v);
    std::memcpy(lanes, &v, sizeof lanes);
    for (int k = 0; k < 8; ++k) {
      const float y = scalar(x[k]);
      std::uint32_t bits;
      std::memcpy(&bits, &y, 4);
      if (bits != lanes[k] && !std::isnan(y)) return {std::numeric_limits<double>::infinity(), x[k]};
      const double right = exact(x[k]);
      if (std::isnan(y) && std::isnan(right)) continue;
      if (std::fabs(static_cast<double>(y) - right) <= absolute) continue;
      const double e = ulps(y, right) / allowed(static_cast<double>(x[k]));
      if (!(e <= worst.error)) worst = {e, x[k]};
    }
  }
  return worst;
}

/// Compares scalar and vector form bit by bit, and both with `exact` within `allowed(x)` ulps or `absolute`:
/// on two million floats, or on every one if MUSAIC_EVERY_FLOAT is set.
template <class Scalar, class Vector, class Allowed>
void check_function(const char* name, Scalar scalar, Vector vector, double (*exact)(double), Allowed allowed,
                    double absolute = 0) {
  const bool every = std::getenv("MUSAIC_EVERY_FLOAT") != nullptr;
  // A stride that is odd walks all exponents and signs; offset fresh each run.
  const auto start = static_cast<std::uint32_t>(rng()());
  const std::uint32_t stride = every ? 1 : 2147;
  const std::uint64_t count = every ? std::uint64_t{1} << 32 : 2000000;
  const std::uint64_t parts = every ? 16 : 1;
  std::vector<std::future<Worst>> results;
  for (std::uint64_t part = 0; part < parts; ++part)
    results.push_back(std::async(std::launch::async, [=] {
      return worst_of(start, stride, count / parts * part, count / parts * (part + 1), scalar, vector, exact,
                      allowed, absolute);
    }));
  for (std::future<Worst>& result : results) {
    const Worst worst = result.get();
    EXPECT_LE(worst.error, 1.0) << name << " at " << worst.at << ", in units of the stated error";
  }
}

#define CHECK_FUNCTION(name, ...) \
  check_function(                 \
      #name, [](float x) { return dev::name(x); }, [](dev::F32x8 x) { return dev::name(x); }, __VA_ARGS__)

auto ulp(double n) {
  return [n](double) { return n; };
}

TEST(Device, MathWithinItsStatedError) {
  CHECK_FUNCTION(exp, [](double x) { return std::exp(x); }, ulp(1.1));
  CHECK_FUNCTION(log, [](double x) { return std::log(x); }, ulp(1.0));
  CHECK_FUNCTION(tanh, [](double x) { return std::tanh(x); }, ulp(2.0));
  CHECK_FUNCTION(logistic, [](double x) { return 1 / (1 + std::exp(-x)); }, ulp(3.0), 0x1p-149);
  CHECK_FUNCTION(normal_cdf, [](double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }, ulp(6.0));
  // The limits at minus infinity are no quotients or products of infinities.
  CHECK_FUNCTION(
      silu, [](double x) { return std::isinf(x) && x < 0 ? -0.0 : x / (1 + std::exp(-x)); }, ulp(4.0),
      0x1p-142);
  CHECK_FUNCTION(
      gelu,
      [](double x) { return std::isinf(x) && x < 0 ? -0.0 : x * (0.5 * std::erfc(-x * std::sqrt(0.5))); },
      ulp(7.0), 0x1p-145);
  const auto twice_u = [](double x) {
    return 2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
  };
  CHECK_FUNCTION(
      gelu_tanh,
      [](double x) {
        const double v = 2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x);
        return std::isinf(x) && x < 0 ? -0.0 : x / (1 + std::exp(-v));
      },
      // (5 + 3 v) 2^-24 of the result is at most that many ulps.
      [&](double x) { return x >= 0 ? 4.0 : 5.0 + 3.0 * std::fabs(twice_u(x)); }, 0x1p-145);
}

TEST(Device, ActivationsAtTheEnds) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (float (*f)(float) : {+[](float x) { return dev::silu(x); }, +[](float x) { return dev::gelu(x); },
                            +[](float x) { return dev::gelu_tanh(x); }}) {
    EXPECT_EQ(f(infinity), infinity);
    EXPECT_EQ(f(3.0e38f), 3.0e38f);
    for (float low : {-infinity, -3.4e38f, -1e20f, -1000.0f}) {
      EXPECT_EQ(f(low), 0.0f) << low;
      EXPECT_TRUE(std::signbit(f(low))) << low;
    }
    EXPECT_TRUE(std::isnan(f(std::nanf(""))));
    EXPECT_EQ(f(0.0f), 0.0f);
    EXPECT_TRUE(std::signbit(f(-0.0f)));
  }
  EXPECT_EQ(dev::normal_cdf(0.0f), 0.5f);
  EXPECT_EQ(dev::normal_cdf(-infinity), 0.0f);
  EXPECT_EQ(dev::normal_cdf(infinity), 1.0f);
}

/// The definition, written out.
float defined_sum(const std::vector<float>& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  const std::int64_t w = sum_slots(n);
  float total = 0;
  for (std::int64_t segment = 0; segment < n; segment += kSumSegment) {
    std::vector<float> slot(static_cast<std::size_t>(w), 0.0f);
    for (std::int64_t i = segment; i < std::min(n, segment + kSumSegment); ++i) {
      float& s = slot[static_cast<std::size_t>((i - segment) % w)];
      s = std::fma(x[static_cast<std::size_t>(i)], x[static_cast<std::size_t>(i)], s);
    }
    for (std::size_t h = 1; h < slot.size(); h *= 2)
      for (std::size_t i = 0; i < slot.size(); i += 2 * h) slot[i] = slot[i] + slot[i + h];
    total = segment == 0 ? slot[0] : total + slot[0];
  }
  return total;
}

TEST(Device, SumFollowsItsDefinition) {
  dev::RowGroup group;
  for (std::int64_t n : {0,   1,    7,    8,    9,    63,   64,   65,   255,  256,   257,
                         511, 1000, 2047, 2048, 2049, 8191, 8192, 8193, 8200, 16384, 30001}) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& v : x) v = static_cast<float>(normal());
    const float* p = x.data();
    const float got = group.sum(n, [&](auto c, dev::F32x8 acc) {
      const dev::F32x8 v = c.load(p);
      return dev::fma(v, v, acc);
    });
    EXPECT_EQ(got, defined_sum(x)) << n;
    float largest = -1e30f;
    for (float v : x) largest = std::max(largest, v);
    EXPECT_EQ(group.max(n, -1e30f, [&](auto c) { return c.load(p); }), largest) << n;
  }
}

TEST(Device, ShortExponentialHasTheSameBits) {
  const auto start = static_cast<std::uint32_t>(uniform_int(0, 40));
  for (std::uint32_t u = start; u < 0x42a00000u; u += 41) {  // to 80
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      const float x = dev::from_bits(u | sign);
      ASSERT_EQ(dev::as_bits(dev::exp_near_zero(x)), dev::as_bits(dev::exp(x))) << x;
    }
  }
}

// The vectors that the authors of the generator publish with it (Random123, kat_vectors).
TEST(Device, PhiloxGivesItsKnownAnswers) {
  const auto expect = [](dev::PhiloxBlock counter, std::uint64_t key,
                         const std::vector<std::uint32_t>& words) {
    const dev::PhiloxBlock out = dev::philox4x32(counter, key);
    EXPECT_EQ(std::vector<std::uint32_t>(out.word, out.word + 4), words);
  };
  expect({{0, 0, 0, 0}}, 0, {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  const std::uint32_t ones = ~std::uint32_t{0};
  expect({{ones, ones, ones, ones}}, ~std::uint64_t{0}, {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  expect({{0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}}, 0x299f31d0a4093822u,
         {0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
  for (int j = 0; j < 10; ++j) {
    const std::uint64_t seed = rng()(), offset = rng()(), subsequence = rng()();
    const std::uint64_t position = 8 * offset + static_cast<std::uint64_t>(j / 2);
    const dev::PhiloxBlock out = dev::philox4x32(
        {{static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
          static_cast<std::uint32_t>(subsequence), static_cast<std::uint32_t>(subsequence >> 32)}},
        seed);
    const int w = j % 2 == 0 ? 0 : 2;
    EXPECT_EQ(dev::random_bits(seed, offset, subsequence, j),
              out.word[w] | std::uint64_t{out.word[w + 1]} << 32);
  }
}

TEST(Device, WideProductsAndShifts) {
  __extension__ typedef unsigned __int128 Wide;
  const auto join = [](dev::U128 a) { return Wide{a.high} << 64 | a.low; };
  for (int round = 0; round < 100000; ++round) {
    const std::uint64_t a = rng()() >> uniform_int(0, 63), b = rng()() >> uniform_int(0, 63);
    const Wide product = Wide{a} * b;
    ASSERT_TRUE(join(dev::multiply_wide(a, b)) == product);
    ASSERT_EQ(dev::multiply_high(a, b), static_cast<std::uint64_t>(product >> 64));
    const int shift = static_cast<int>(uniform_int(0, 127));
    ASSERT_TRUE(join(dev::shift_left(a, shift)) == Wide{a} << shift);
    const Wide up = (product >> shift) + ((product >> shift << shift) != product ? 1 : 0);
    if (up >> 64 == 0) {
      ASSERT_EQ(dev::shift_right_up(dev::multiply_wide(a, b), shift), static_cast<std::uint64_t>(up));
    }
    const Wide other = Wide{b} << shift;
    ASSERT_EQ(dev::compare(dev::multiply_wide(a, b), dev::shift_left(b, shift)),
              product < other ? -1 : product > other);
  }
  EXPECT_EQ(dev::shift_right_up({0, 5}, 149), 1u);
  EXPECT_EQ(dev::shift_right_up({0, 0}, 149), 0u);
}

TEST(Device, WeightsAreTheFloorsOfTheirRow) {
  const auto check = [](float max) {
    const int e = dev::weight_exponent(max);
    const auto m = static_cast<double>(max);
    EXPECT_EQ(e % 24, 0);
    EXPECT_TRUE(m >= 0x1p-24 && m <= 1.0 ? e == 0 : m <= std::ldexp(1.0, e) && m > std::ldexp(1.0, e - 24))
        << max << " " << e;
    const dev::WeightScale scale = dev::weight_scale(e);
    for (int i = 0; i < 20; ++i) {
      const float p = i == 0 ? max : max * static_cast<float>(std::exp(-uniform(0, 60)));
      const auto exact = static_cast<std::uint64_t>(std::ldexp(static_cast<double>(p), 40 - e));
      ASSERT_EQ(scale.weight(p), exact) << p << " of " << max;
      dev::I32x8 high, low;
      scale.split(dev::all<dev::F32x8>(p), high, low);
      ASSERT_EQ(dev::sum_of_parts(high, low), 8 * exact);
    }
    EXPECT_GE(scale.weight(max), 1u << 16);
  };
  for (int e = -149; e < 128; ++e) {
    const float power = std::ldexp(1.0f, e);
    for (float max : {power, std::nextafter(power, 0.0f), std::nextafter(power, 3e38f)})
      if (max > 0) check(max);
  }
  for (int i = 0; i < 1000; ++i) check(static_cast<float>(std::exp(uniform(-103, 88))));
}

template <class T>
void check_quotients(DType dtype, int digits, int smallest_exponent) {
  for (int round = 0; round < 20000; ++round) {
    float w[8];
    std::uint64_t sum = 0;
    for (int i = 0; i < 8; ++i) {
      // A weight and a sum whose quotient is next to, or at, the middle between two numbers of the type.
      const auto weight = static_cast<std::uint64_t>(uniform_int(1 << 23, (1 << 24) - 1)) << 16;
      w[i] = static_cast<float>(weight);
      if (i > 0) continue;
      const auto middle =
          static_cast<std::uint64_t>((uniform_int(1 << (digits - 1), (1 << digits) - 1) << 1) | 1);
      const int shift = static_cast<int>(uniform_int(digits + 4, digits + 21));
      sum = static_cast<std::uint64_t>((reference::BigInteger{weight} << shift) / middle) +
            static_cast<std::uint64_t>(uniform_int(-1, 2));
    }
    T out[8];
    dev::Quotient(sum).store(out, w);
    for (int i = 0; i < 8; ++i)
      ASSERT_EQ(to_double(out + i, dtype),
                reference::quotient(static_cast<std::uint64_t>(w[i]), sum, digits, smallest_exponent))
          << static_cast<double>(w[i]) << " / " << sum << " " << to_string(dtype);
  }
}

TEST(Device, QuotientsOfIntegersAreRoundedOnce) {
  check_quotients<float>(kFloat32, 24, -149);
  check_quotients<dev::Half>(kFloat16, 11, -24);
  check_quotients<dev::BFloat16>(kBFloat16, 8, -133);
}

TEST(Device, OrderKeysSortAsNumbers) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> rising = {-infinity, -3e38f, -1.0f, -1e-45f, 0.0f, 1e-45f, 1.0f, 3e38f, infinity};
  for (std::size_t i = 0; i + 1 < rising.size(); ++i)
    EXPECT_LT(dev::order_key(rising[i]), dev::order_key(rising[i + 1]));
  for (float v : rising) EXPECT_EQ(dev::value_of_key(dev::order_key(v)), v);
  EXPECT_EQ(dev::order_key(-0.0f), dev::order_key(0.0f));
}

}  // namespace
}  // namespace musaic::testing
