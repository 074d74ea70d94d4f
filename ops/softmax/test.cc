#include <cstring>
#include <limits>

#include "ops/softmax/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kSizes[] = {1,  2,  3,   7,   8,    9,    11,   17,   31,   33,
                                   63, 65, 127, 129, 1000, 2048, 8191, 8193, 32768};

struct Format {
  int digits, smallest_exponent;
};
Format format(DType t) {
  if (t == kFloat32) return {24, -149};
  if (t == kFloat16) return {11, -24};
  return {8, -133};
}

std::vector<double> row(const std::vector<double>& x, std::int64_t r, std::int64_t n) {
  return {x.begin() + static_cast<std::ptrdiff_t>(r * n),
          x.begin() + static_cast<std::ptrdiff_t>((r + 1) * n)};
}

/// Equal to the quotients of the weights, which follow from the contract's expressions.
void expect_exact(Buffer& in, Buffer& out, const std::vector<float>& temperature) {
  const std::int64_t n = in.tensor().size(1);
  const std::vector<double> x = in.values(), y = out.values();
  const Format f = format(out.tensor().dtype());
  for (std::int64_t r = 0; r < in.tensor().size(0); ++r) {
    const auto w = reference::weights(
        reference::relative_probabilities(row(x, r, n), temperature[static_cast<std::size_t>(r)]), 0);
    std::uint64_t sum = 0;
    for (std::uint64_t v : w) sum += v;
    for (std::int64_t i = 0; i < n; ++i)
      ASSERT_EQ(y[static_cast<std::size_t>(r * n + i)],
                reference::quotient(w[static_cast<std::size_t>(i)], sum, f.digits, f.smallest_exponent))
          << "row " << r << " of " << n << ", element " << i << ", " << to_string(out.tensor().dtype());
  }
  out.expect_guards_intact("out");
}

class Softmax : public OnTarget {};

TEST_P(Softmax, IsTheRoundedQuotientOfItsWeights) {
  for (DType dtype : float_types())
    for (DType out_dtype : float_types())
      for (std::int64_t n : kSizes) {
        if (n > 3000 && dtype != out_dtype) continue;
        if (is_slow() && (n > 9000 || uniform_int(0, 3) != 0)) continue;
        const std::int64_t rows = n > 3000 ? 1 : 3;
        Buffer in(dtype, {rows, n}, uniform_int(0, 7)), out(out_dtype, {rows, n}, uniform_int(0, 7)),
            t(kFloat32, {rows}, 0, {2});
        in.fill_normal(uniform(0.1, 12.0));
        t.fill([](std::int64_t) { return std::exp(uniform(-2.0, 2.0)); });
        const std::vector<unsigned char> before = in.bytes();
        softmax(out, in, t);
        std::vector<float> temperature;
        for (double v : t.values()) temperature.push_back(static_cast<float>(v));
        expect_exact(in, out, temperature);
        EXPECT_EQ(in.bytes(), before);
      }
}

TEST_P(Softmax, RowsWhereRoundingIsDecidedByIntegers) {
  for (DType out_dtype : float_types())
    for (std::int64_t n : {1, 2, 3, 4, 5, 6, 7, 48, 64, 96, 1024, 3000, 4096, 4097}) {
      Buffer in(kFloat32, {3, n}), out(out_dtype, {3, n});
      // Constant; two values that are powers of 2 apart in weight; a few levels.
      in.fill([&](std::int64_t i) {
        return i / n == 0   ? -3.5
               : i / n == 1 ? -0.693147180559945 * static_cast<double>(i % 2)
                            : -static_cast<double>(i % 4);
      });
      softmax(out, in);
      expect_exact(in, out, {1, 1, 1});
    }
}

// ggml-org/llama.cpp#12445: results must not depend on a width of lanes.
TEST_P(Softmax, CloseToFloat64AndSumsToOne) {
  for (DType dtype : float_types())
    for (std::int64_t n : {1, 31, 33, 63, 65, 127, 129, 1000, 2048, 32768}) {
      Buffer in(dtype, {1, n}), out(kFloat32, {1, n});
      in.fill_normal(3.0);
      const double t = uniform(0.3, 2.0);
      softmax(out, in, Tensor(), t);
      const std::vector<double> y = out.values(),
                                exact = reference::softmax(in.values(), static_cast<float>(t));
      double sum = 0;
      for (double v : y) sum += v;
      EXPECT_NEAR(sum, 1.0, 1e-6);
      // |d / T| <= 28 with three roundings before the exponential (1.1 ulp) and one after; weights below
      // 2^-40 of the largest are cut.
      expect_close(
          y, exact,
          [&](std::int64_t i) {
            return exact[static_cast<std::size_t>(i)] * 2 * (28 * 1.5 + 2) * 0x1p-23 + 2e-12;
          },
          "n = " + std::to_string(n));
    }
}

// apache/tvm#12274: a maximum that starts at 0 lets e^x overflow or vanish.
TEST_P(Softmax, NegativeRowsOfOddLengths) {
  for (std::int64_t n : {1, 2, 3, 11, 17, 31, 33})
    for (double low : {0.0, -1000.0}) {
      Buffer in(kFloat32, {1, n}), out(kFloat32, {1, n});
      in.fill([&](std::int64_t i) { return low - static_cast<double>(i + 1); });
      softmax(out, in);
      expect_exact(in, out, {1});
      expect_close(out.values(), reference::softmax(in.values(), 1), [](std::int64_t) { return 1e-6; }, "n");
    }
}

TEST_P(Softmax, InfinitiesAndNans) {
  const std::int64_t n = 37;
  for (DType dtype : float_types()) {
    Buffer in(dtype, {6, n}), good(kFloat32, {6, n}), out(kFloat32, {6, n});
    in.fill_normal();
    softmax(good, in);
    in.set(1 * n + 36, kNan);
    in.set(2 * n + 5, kInf);
    for (std::int64_t i = 0; i < n; ++i) in.set(3 * n + i, -kInf);
    for (std::int64_t i = 0; i < n - 1; ++i) in.set(4 * n + i, -kInf);
    softmax(out, in);
    for (std::int64_t i = 0; i < out.numel(); ++i) switch (i / n) {
        case 1:
        case 2:
          EXPECT_TRUE(std::isnan(out.get(i)));
          break;
        case 3:
          EXPECT_EQ(out.get(i), 0.0);
          break;
        case 4:
          EXPECT_EQ(out.get(i), i % n == n - 1 ? 1.0 : 0.0);
          break;
        default:
          EXPECT_EQ(out.get(i), good.get(i));
      }
  }
}

TEST_P(Softmax, TemperatureEdges) {
  const std::vector<double> temperatures = {0.0,  -0.0, -1.0, 0x1p-127, 0x1p-126,
                                            1e30, 3e38, kInf, kNan,     -kInf};
  const auto rows = static_cast<std::int64_t>(temperatures.size());
  Buffer in(kFloat32, {rows, 5}), t(kFloat32, {rows}), out(kFloat32, {rows, 5});
  in.fill(
      [](std::int64_t i) { return std::vector<double>{1, 3, -2, 3, 2}[static_cast<std::size_t>(i % 5)]; });
  t.fill([&](std::int64_t i) { return temperatures[static_cast<std::size_t>(i)]; });
  softmax(out, in, t);
  const auto expect_row = [&](std::int64_t r, const std::vector<double>& e) {
    for (std::int64_t i = 0; i < 5; ++i)
      EXPECT_EQ(out.get(5 * r + i), e[static_cast<std::size_t>(i)]) << "row " << r;
  };
  for (std::int64_t r : {0, 1, 2, 3, 9}) expect_row(r, {0, 1, 0, 0, 0});
  expect_row(4, {0, 0.5, 0, 0.5, 0});
  const double fifth = round_to(kFloat32, 0.2);
  for (std::int64_t r : {5, 6, 7}) expect_row(r, {fifth, fifth, fifth, fifth, fifth});
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_TRUE(std::isnan(out.get(5 * 8 + i)));
  // The scalar means the same as the tensor.
  for (std::int64_t r = 0; r < rows; ++r) {
    if (std::isnan(temperatures[static_cast<std::size_t>(r)])) continue;
    Buffer one(kFloat32, {1, 5});
    softmax(one, in.tensor().slice(0, r, r + 1), Tensor(), temperatures[static_cast<std::size_t>(r)]);
    for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(one.get(i), out.get(5 * r + i));
  }
  // Numbers whose difference leaves the range of float32.
  Buffer wide(kFloat32, {1, 3}), y(kFloat32, {1, 3});
  wide.fill(
      [](std::int64_t i) { return std::vector<double>{-3e38, 3e38, -kInf}[static_cast<std::size_t>(i)]; });
  for (double temperature : {1.0, 1e30, 3e38}) {
    softmax(y, wide, Tensor(), temperature);
    EXPECT_EQ(y.values(), (std::vector<double>{0, 1, 0})) << temperature;
  }
}

TEST_P(Softmax, InPlaceStridedAndEmpty) {
  const DType dtype = float_types().back();
  Buffer in(dtype, {6, 45}, 1, {50, 1}), out(dtype, {6, 45});
  in.fill_normal(4.0);
  softmax(out, in);
  softmax(in, in);
  EXPECT_EQ(in.bytes(), out.bytes());
  in.expect_guards_intact("in place");
  Buffer none(kFloat32, {0, 45}), thin(kFloat32, {3, 0});
  EXPECT_NO_THROW(softmax(none, none));
  EXPECT_NO_THROW(softmax(thin, thin));
}

MUSAIC_EVERY_TARGET(Softmax);

TEST(SoftmaxBits, SameEverywhereAndPerRow) {
  for (DType dtype : float_types())
    for (std::int64_t n : {1, 64, 255, 8193, 20000}) {
      if (n > 255 && dtype == kFloat16) continue;
      Buffer in(dtype, {n > 255 ? 3 : 9, n});
      in.fill_normal(3.0);
      std::vector<unsigned char> batch;
      expect_same_bytes_everywhere([&] {
        Buffer out(dtype, {in.tensor().size(0), n});
        softmax(out, in, Tensor(), 0.7);
        return batch = out.bytes();
      });
      Buffer one(dtype, {1, n});
      softmax(one, in.tensor().slice(0, 2, 3), Tensor(), 0.7);
      const std::vector<unsigned char> alone = one.bytes();
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                             batch.begin() + static_cast<std::ptrdiff_t>(2 * alone.size())));
    }
}

TEST(SoftmaxErrors, NameTheArgument) {
  Buffer in(kFloat32, {4, 8}), out(kFloat32, {4, 8}), out9(kFloat32, {4, 9}), ints(kInt32, {4, 8}),
      t3(kFloat32, {3}), t16(kFloat16, {4});
  in.fill_normal();
  expect_error([&] { softmax(out9, in); }, {"softmax: out: shape [4, 9]", "[4, 8] (from logits)"});
  expect_error([&] { softmax(out, ints); }, {"softmax: logits: dtype int32"});
  expect_error([&] { softmax(ints, in); }, {"softmax: out: dtype int32"});
  expect_error([&] { softmax(out, in, t3); }, {"softmax: temperature: shape [3]", "batch_size=4"});
  expect_error([&] { softmax(out, in, t16); }, {"softmax: temperature: dtype float16", "float32"});
  expect_error([&] { softmax(out, in, Tensor(), kNan); }, {"softmax: temperature_scalar: NaN"});
  expect_error([&] { softmax(in.tensor().slice(0, 1, 4), in.tensor().slice(0, 0, 3)); },
               {"softmax: out: memory that overlaps logits"});
  const Tensor huge(in.tensor().data(), kFloat32, {1, (std::int64_t{1} << 22) + 1}),
      huge_out(out.tensor().data(), kFloat32, {1, (std::int64_t{1} << 22) + 1});
  expect_error([&] { softmax(huge_out, huge); },
               {"softmax: logits: rows of 4194305 entries", "at most 4194304"});
  EXPECT_NO_THROW(softmax(out, in));
}

}  // namespace
}  // namespace musaic::testing
