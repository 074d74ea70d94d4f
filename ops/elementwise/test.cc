#include <cmath>
#include <limits>

#include "ops/elementwise/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Elementwise : public OnTarget {};

TEST_P(Elementwise, EverySizeAndStride) {
  for (const DType dtype : float_types())
    for (const std::int64_t n : {1, 3, 7, 8, 9, 31, 257, 2047, 2049, 5000}) {
      const std::int64_t gap = n % 4;
      Buffer in(dtype, {2, 3, n}, gap, {3 * n + 40, n + gap, 1}), bias(dtype, {2, 3, n}, 1),
          out(dtype, {2, 3, n}, 2, {3 * n + gap, n, 1});
      in.fill_normal(4);
      bias.fill_normal();
      const std::vector<double> x = in.values(), b = bias.values();
      out.poison();
      gelu_quick(out, in);
      std::vector<double> expected;
      for (const double v : x) expected.push_back(reference::gelu_quick(v));
      expect_close(
          out.values(), expected,
          [&](std::int64_t i) {
            const auto at = static_cast<std::size_t>(i);
            return std::fabs(expected[at]) * (epsilon(dtype) + (8 + 4 * std::fabs(x[at])) * 0x1p-24) * 1.01 +
                   smallest(dtype);
          },
          "gelu_quick of " + std::to_string(n));
      const auto scale = static_cast<double>(static_cast<float>(uniform(-3, 3)));
      out.poison();
      fused_mul_add(out, in, n % 2 == 0 ? Tensor() : bias.tensor(), scale);
      // A product of two float32 numbers is exact in float64, and so is one rounding.
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double y = x[i] * scale + (n % 2 == 0 ? 0.0 : b[i]);
        ASSERT_NEAR(out.get(static_cast<std::int64_t>(i)), y,
                    std::fabs(y) * (epsilon(dtype) + 0x1p-24) * 1.01 + smallest(dtype));
      }
      out.expect_guards_intact("out");
    }
}

TEST_P(Elementwise, SpecialNumbersInPlaceAndEmpty) {
  Buffer x(kFloat32, {9}), none(kFloat32, {0, 4}), no_columns(kFloat32, {3, 0});
  const double values[] = {kInf, -kInf, kNan, 0.0, -0.0, -100.0, 100.0, 1e-40, -1e30};
  x.fill([&](std::int64_t i) { return values[i]; });
  gelu_quick(x, x);
  EXPECT_EQ(x.get(0), kInf);
  EXPECT_TRUE(x.get(1) == 0 && std::signbit(x.get(1)));
  EXPECT_TRUE(std::isnan(x.get(2)));
  EXPECT_FALSE(std::signbit(x.get(3)));
  EXPECT_TRUE(std::signbit(x.get(4)));
  EXPECT_EQ(x.get(5), 0.0);
  EXPECT_EQ(x.get(6), 100.0);
  EXPECT_EQ(x.get(8), 0.0);
  x.fill([](std::int64_t i) { return i == 0 ? -0.0 : static_cast<double>(i); });
  fused_mul_add(x, x, {}, 2);
  EXPECT_TRUE(std::signbit(x.get(0)));
  EXPECT_EQ(x.get(8), 16.0);
  fused_mul_add(x, x, x, -1);
  EXPECT_EQ(x.get(8), 0.0);
  EXPECT_NO_THROW(gelu_quick(none, none));
  EXPECT_NO_THROW(fused_mul_add(no_columns, no_columns));
}

MUSAIC_EVERY_TARGET(Elementwise);

TEST(ElementwiseBits, SameEverywhere) {
  for (const DType dtype : {kFloat32, kFloat16}) {
    Buffer in(dtype, {3, 3001}), bias(dtype, {3, 3001});
    in.fill_normal(5);
    bias.fill_normal();
    expect_same_bytes_everywhere([&] {
      Buffer out(dtype, {3, 3001}), second(dtype, {3, 3001});
      gelu_quick(out, in);
      fused_mul_add(second, in, bias, 1.3);
      std::vector<unsigned char> bytes = out.bytes();
      const std::vector<unsigned char> more = second.bytes();
      bytes.insert(bytes.end(), more.begin(), more.end());
      return bytes;
    });
  }
}

TEST(ElementwiseErrors, NameTheArgument) {
  use_target(targets()[0]);
  const Buffer in(kFloat32, {4, 8}), half(kFloat16, {4, 8}), out(kFloat32, {4, 8}), small(kFloat32, {4, 7}),
      ints(kInt32, {4, 8});
  expect_error([&] { gelu_quick(half, in); }, {"gelu_quick: out: dtype float16"});
  expect_error([&] { gelu_quick(small, in); }, {"gelu_quick: out: shape [4, 7]"});
  expect_error([&] { gelu_quick(out, ints); }, {"gelu_quick: input: dtype int32"});
  expect_error([&] { fused_mul_add(out, in, small); }, {"fused_mul_add: bias: shape [4, 7]"});
  expect_error([&] { fused_mul_add(out, in, half); }, {"fused_mul_add: bias: dtype float16"});
  const Tensor shifted(out.tensor().data_as<float>() + 1, kFloat32, {4, 7}, {8, 1}, out.tensor().device());
  const Tensor base(out.tensor().data(), kFloat32, {4, 7}, {8, 1}, out.tensor().device());
  expect_error([&] { gelu_quick(shifted, base); }, {"gelu_quick: out: "});
}

}  // namespace
}  // namespace musaic::testing
