#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/gated_activation/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

using reference::Activation;

struct Form {
  const char* name;
  void (*call)(const Tensor&, const Tensor&, Stream);
  Activation activation;
};
constexpr Form kForms[] = {{"silu_and_mul", &silu_and_mul, Activation::kSilu},
                           {"gelu_and_mul", &gelu_and_mul, Activation::kGelu},
                           {"gelu_tanh_and_mul", &gelu_tanh_and_mul, Activation::kGeluTanh}};

/// The stated error of the activation, one float32 rounding of the product, one of the result.
double tolerance(Activation kind, double gate, double up, DType dtype) {
  const double u32 = epsilon(kFloat32);
  const double ulps = kind == Activation::kSilu   ? 8.0
                      : kind == Activation::kGelu ? 14.0
                      : gate >= 0                 ? 8.0
                                  : 5.0 + 3.0 * std::fabs(reference::gelu_tanh_slope(std::max(gate, -12.0)));
  const double expected = reference::activation(kind, gate) * up;
  return (std::fabs(expected) * (epsilon(dtype) + (ulps + 1.0) * u32) + 0x1p-142 * std::fabs(up)) * 1.01 +
         smallest(dtype);
}

void expect_right(const Form& form, Buffer& in, Buffer& out) {
  const std::vector<double> x = in.values();
  form.call(out, in, {});
  const DType dtype = out.tensor().dtype();
  const std::int64_t d = out.tensor().size(out.tensor().ndim() - 1);
  std::vector<double> expected;
  const auto gate = [&](std::int64_t i) { return x[static_cast<std::size_t>(i / d * 2 * d + i % d)]; };
  const auto up = [&](std::int64_t i) { return x[static_cast<std::size_t>(i / d * 2 * d + d + i % d)]; };
  for (std::int64_t i = 0; i < out.numel(); ++i)
    expected.push_back(
        round_to(dtype, reference::activation(form.activation, gate(i)) * up(i)));  // overflow gives infinity
  expect_close(
      out.values(), expected,
      [&](std::int64_t i) {
        return tolerance(form.activation, gate(i), up(i), dtype) +
               epsilon(dtype) * std::fabs(expected[static_cast<std::size_t>(i)]);
      },
      std::string(form.name) + " d = " + std::to_string(d) + " " + to_string(dtype));
  out.expect_guards_intact("out");
}

class GatedActivation : public OnTarget {};

TEST_P(GatedActivation, MatchesFloat64) {
  for (const Form& form : kForms)
    for (DType dtype : float_types())
      for (std::int64_t d : {1, 2, 3, 7, 8, 9, 16, 31, 111, 1000, 2047, 2048, 2049, 2056, 4096, 4103}) {
        Buffer in(dtype, {2, 2 * d}, uniform_int(0, 7)), out(dtype, {2, d}, uniform_int(0, 7));
        // Gates from subnormal to far out in the tail.
        in.fill([&](std::int64_t) { return normal() * std::pow(10.0, uniform(-4, 1.6)); });
        expect_right(form, in, out);
      }
}

TEST_P(GatedActivation, StridedRows) {
  for (const Form& form : kForms)
    for (DType dtype : float_types()) {
      Buffer in(dtype, {3, 2, 74}, 1, {400, 101, 1}), out(dtype, {3, 2, 37}, 3, {190, 95, 1});
      in.fill_normal(3.0);
      expect_right(form, in, out);
    }
}

// flashinfer-ai/flashinfer#5013: wide loads of the second half of a row, whose start is not aligned.
TEST_P(GatedActivation, SecondHalfStartsAnywhere) {
  for (std::int64_t d : {1, 3, 4, 12, 17, 1234, 3420, 3421}) {
    Buffer in(kFloat16, {2, 2 * d}), out(kFloat16, {2, d});
    in.fill([&](std::int64_t i) {
      return i % (2 * d) < d ? 1.0 : static_cast<double>((i % (2 * d) - d) % 5 - 2);
    });
    silu_and_mul(out, in);
    for (std::int64_t i = 0; i < out.numel(); ++i)
      ASSERT_EQ(out.get(i), round_to(kFloat16, 0.7310585786300049 * static_cast<double>(i % d % 5 - 2))) << d;
    out.expect_guards_intact("out");
  }
}

// sgl-project/sglang#23636: zero rows made a launch that failed, and the error surfaced in a later call.
TEST_P(GatedActivation, ZeroRowsThenRows) {
  for (const Form& form : kForms) {
    Buffer none(kFloat16, {0, 1024}), none_out(kFloat16, {0, 512}), flat(kFloat16, {7, 0}),
        flat_out(kFloat16, {7, 0});
    EXPECT_NO_THROW(form.call(none_out, none, {}));
    EXPECT_NO_THROW(form.call(flat_out, flat, {}));
    Buffer in(kFloat16, {2, 1024}), out(kFloat16, {2, 512});
    in.fill_normal();
    expect_right(form, in, out);
  }
}

TEST_P(GatedActivation, OutMayBeEitherHalf) {
  for (const Form& form : kForms)
    for (DType dtype : float_types())
      for (std::int64_t begin : {0, 2051}) {
        Buffer in(dtype, {3, 4102}), out(dtype, {3, 2051});
        in.fill_normal();
        form.call(out, in, {});
        const std::vector<double> before = in.values();
        form.call(in.tensor().slice(1, begin, begin + 2051), in, {});
        for (std::int64_t i = 0; i < in.numel(); ++i) {
          const std::int64_t c = i % 4102 - begin;
          const bool written = c >= 0 && c < 2051;
          ASSERT_EQ(in.get(i), written ? out.get(i / 4102 * 2051 + c) : before[static_cast<std::size_t>(i)]);
        }
      }
}

TEST_P(GatedActivation, InfinitiesAndNaN) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const Form& form : kForms)
    for (DType dtype : float_types())
      for (std::int64_t repeat : {1, 3}) {  // vector body and tail
        const std::vector<double> gates = {inf, -inf, -inf, nan, 1.0, inf, -1000.0, 1000.0, 0.0, -0.0},
                                  ups = {2.0, 2.0, inf, 1.0, nan, 0.0, -3.0, -3.0, inf, 1.0},
                                  expected = {inf, -0.0, nan, nan, nan, nan, 0.0, -3000.0, nan, -0.0};
        const auto n = static_cast<std::int64_t>(gates.size());
        Buffer in(dtype, {1, 2 * n * repeat}), out(dtype, {1, n * repeat});
        for (std::int64_t i = 0; i < n * repeat; ++i) {
          in.set(i, gates[static_cast<std::size_t>(i % n)]);
          in.set(n * repeat + i, ups[static_cast<std::size_t>(i % n)]);
        }
        form.call(out, in, {});
        for (std::int64_t i = 0; i < n * repeat; ++i) {
          const double e = expected[static_cast<std::size_t>(i % n)], got = out.get(i);
          if (std::isnan(e)) {
            EXPECT_TRUE(std::isnan(got)) << form.name << i;
            if (dtype == kBFloat16) {
              std::uint16_t bits;
              std::memcpy(&bits, out.element(i), 2);
              EXPECT_EQ(bits, 0x7fc0) << "a computed NaN is stored canonical";
            }
          } else {
            EXPECT_EQ(got, round_to(dtype, e)) << form.name << i;
            EXPECT_EQ(std::signbit(got), std::signbit(e)) << form.name << i;
          }
        }
      }
}

MUSAIC_EVERY_TARGET(GatedActivation);

TEST(GatedActivationBits, SameEverywhereAndPerRow) {
  for (const Form& form : kForms)
    for (DType dtype : float_types())
      for (std::int64_t d : {1, 64, 255, 2049, 11008}) {
        Buffer in(dtype, {13, 2 * d});
        in.fill([&](std::int64_t) { return normal() * std::pow(10.0, uniform(-3, 1.7)); });
        std::vector<unsigned char> batch;
        expect_same_bytes_everywhere([&] {
          Buffer out(dtype, {13, d});
          form.call(out, in, {});
          return batch = out.bytes();
        });
        Buffer one(dtype, {1, d}, 1);
        form.call(one, in.tensor().slice(0, 7, 8), {});
        const std::vector<unsigned char> alone = one.bytes();
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                               batch.begin() + static_cast<std::ptrdiff_t>(7 * alone.size())));
      }
}

TEST(GatedActivationErrors, NameTheArgument) {
  Buffer in(kFloat32, {4, 16}), out(kFloat32, {4, 8}), odd(kFloat32, {4, 15}), ints(kInt32, {4, 16}),
      half(kFloat16, {4, 8}), wide(kFloat32, {4, 9});
  expect_error([&] { silu_and_mul(out, odd); },
               {"silu_and_mul: input: shape [4, 15]", "an even last dimension"});
  expect_error([&] { gelu_and_mul(out, ints); },
               {"gelu_and_mul: input: dtype int32", "float32, float16, bfloat16"});
  expect_error([&] { gelu_tanh_and_mul(half, in); },
               {"gelu_tanh_and_mul: out: dtype float16", "float32 (from input)"});
  expect_error([&] { silu_and_mul(wide, in); },
               {"silu_and_mul: out: shape [4, 9]", "[4, 8] (from half of input)"});
  expect_error([&] { silu_and_mul(out, Tensor()); }, {"silu_and_mul: input: no tensor"});
  expect_error([&] { silu_and_mul(in.tensor().slice(1, 4, 12), in); },
               {"silu_and_mul: out: memory that overlaps input"});
  const Tensor packed(in.tensor().data(), kFloat32, {4, 8});
  expect_error([&] { silu_and_mul(packed, in); }, {"silu_and_mul: out: memory that overlaps input"});
  const Tensor columns(in.tensor().data(), kFloat32, {4, 8}, {16, 2});
  expect_error([&] { silu_and_mul(out, columns); }, {"silu_and_mul: input: stride 2 in the last dimension"});
  EXPECT_NO_THROW(silu_and_mul(out, in.fill_normal()));
}

}  // namespace
}  // namespace musaic::testing
