// The quotient and the root built from residuals against the processor's, for seeds that are several ulp off.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>

#include "testing/testing.h"

#define MUSAIC_FN inline
namespace musaic::MUSAIC_TARGET {
namespace {
float fma(float a, float b, float c) { return std::fma(a, b, c); }
std::uint32_t as_bits(float a) {
  std::uint32_t b;
  std::memcpy(&b, &a, sizeof b);
  return b;
}
float from_bits(std::uint32_t a) {
  float b;
  std::memcpy(&b, &a, sizeof b);
  return b;
}
}  // namespace
}  // namespace musaic::MUSAIC_TARGET
#include "backends/musa/rounding.h"

namespace musaic::MUSAIC_TARGET {
namespace {

bool same(float a, float b) { return std::isnan(a) ? std::isnan(b) : as_bits(a) == as_bits(b); }

float off_by(float x, int ulps) { return from_bits(as_bits(x) + static_cast<std::uint32_t>(ulps)); }

TEST(MusaRounding, SqrtOfEveryMantissa) {
  for (std::uint32_t m = 0; m < 1u << 24; ++m) {
    const float a = from_bits(0x3f800000u + m);
    const int ulps = static_cast<int>(m * 2654435761u >> 16) % 9 - 4;
    const float got = rounded_sqrt(a, [&](float x) { return off_by(std::sqrt(x), ulps); });
    ASSERT_TRUE(same(got, std::sqrt(a))) << "sqrt(" << a << ") from a seed " << ulps << " ulp off: " << got;
  }
}

TEST(MusaRounding, SqrtOfEveryExponentAndSpecialValue) {
  for (std::uint32_t high = 0; high < 1u << 16; ++high)
    for (const std::uint32_t low : {0u, 1u, 0x8000u, 0xffffu}) {
      const float a = from_bits(high << 16 | low);
      for (int ulps = -4; ulps <= 4; ulps += 4)
        ASSERT_TRUE(same(rounded_sqrt(a, [&](float x) { return off_by(std::sqrt(x), ulps); }), std::sqrt(a)))
            << a;
    }
}

TEST(MusaRounding, Quotients) {
  auto& random = testing::rng();
  const std::uint32_t edges[] = {0u,          1u,          2u,          3u,          0x007fffffu, 0x00800000u,
                                 0x00800001u, 0x3f7fffffu, 0x3f800000u, 0x3f800001u, 0x3fffffffu, 0x40400000u,
                                 0x7f000000u, 0x7f7fffffu, 0x7f800000u, 0x7fc00000u};
  const auto check = [&](std::uint32_t a, std::uint32_t b, int ulps) {
    const float x = from_bits(a), y = from_bits(b);
    const float got = rounded_div(x, y, [&](float n, float d) { return off_by(n / d, ulps); });
    ASSERT_TRUE(same(got, x / y)) << x << " / " << y << " from a seed " << ulps << " ulp off: " << got
                                  << ", not " << x / y;
  };
  for (const std::uint32_t a : edges)
    for (const std::uint32_t b : edges)
      for (int ulps = -4; ulps <= 4; ++ulps) {
        check(a, b, ulps);
        check(a | 0x80000000u, b, ulps);
      }
  for (int i = 0; i < 2000000; ++i) {
    const std::uint64_t r = random();
    check(static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(r >> 32), static_cast<int>(i % 9) - 4);
  }
  // Subnormal quotients, exact ties among them.
  for (int i = 0; i < 500000; ++i) {
    const std::uint64_t r = random();
    const std::uint32_t a = static_cast<std::uint32_t>(r) & 0x00ffffffu,
                        b = 0x3f800000u + (static_cast<std::uint32_t>(i % 20) << 23);
    check(a, i % 2 == 0 ? b : b | (static_cast<std::uint32_t>(r >> 40) & 0x7fffffu),
          static_cast<int>(i % 9) - 4);
  }
}

}  // namespace
}  // namespace musaic::MUSAIC_TARGET
