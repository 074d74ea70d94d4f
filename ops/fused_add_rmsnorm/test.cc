#include <algorithm>
#include <cstring>
#include <limits>

#include "ops/fused_add_rmsnorm/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

constexpr std::int64_t kSizes[] = {1,    2,    3,    5,    7,    8,    9,     33,   111,
                                   255,  256,  257,  500,  769,  999,  1000,  1025, 2047,
                                   2048, 2049, 3584, 8191, 8192, 8193, 16384, 16385};

using Function = void (*)(const Tensor&, const Tensor&, const Tensor&, double, Stream);
struct Form {
  Function call;
  double weight_offset;
};
constexpr Form kForms[] = {{&fused_add_rmsnorm, 0.0}, {&gemma_fused_add_rmsnorm, 1.0}};

/// The sum of a row of n has relative error below (n / W + log2 W + 1) u32, from which the norm takes half;
/// the addition, which rounds relative to x itself, and the products add 5 u32; the result is rounded once.
double tolerance(double expected, std::int64_t n, DType dtype) {
  const double u32 = epsilon(kFloat32);
  const double relative = epsilon(dtype) + (5.0 + 0.5 * (static_cast<double>(n) / 256.0 + 14.0)) * u32;
  return std::fabs(expected) * relative * 1.01 + smallest(dtype);
}

std::vector<double> row_of(const std::vector<double>& v, std::int64_t row, std::int64_t n) {
  return {v.begin() + row * n, v.begin() + (row + 1) * n};
}

/// Calls `form` on the buffers and compares both results with float64.
void expect_right(const Form& form, Buffer& in, Buffer& residual, Buffer& w, bool with_weight, double eps) {
  const Tensor t = in;
  const std::int64_t n = t.size(t.ndim() - 1);
  const std::vector<double> x = in.values(), r = residual.values(),
                            weight = with_weight ? w.values() : std::vector<double>();
  form.call(in, residual, with_weight ? w.tensor() : Tensor(), eps, {});
  const std::vector<double> y = in.values(), sum = residual.values();
  for (std::int64_t row = 0; row * n < in.numel(); ++row) {
    const auto e = reference::fused_add_rmsnorm(row_of(x, row, n), row_of(r, row, n), weight,
                                                static_cast<float>(eps), form.weight_offset);
    const std::string what =
        "row " + std::to_string(row) + " of " + std::to_string(n) + " " + to_string(t.dtype());
    const auto near = [&](const std::vector<double>& expected) {
      return [&](std::int64_t i) { return tolerance(expected[static_cast<std::size_t>(i)], n, t.dtype()); };
    };
    expect_close(row_of(y, row, n), e.normed, near(e.normed), "normed " + what);
    // A 16-bit sum is rounded to float32 first, which can move it over the middle of two neighbours.
    expect_close(
        row_of(sum, row, n), e.sum,
        [&](std::int64_t i) {
          return std::fabs(e.sum[static_cast<std::size_t>(i)]) * (epsilon(t.dtype()) + epsilon(kFloat32)) +
                 smallest(t.dtype()) / 2;
        },
        "sum " + what);
  }
  in.expect_guards_intact("input");
  residual.expect_guards_intact("residual");
}

class FusedAddRmsnorm : public OnTarget {};

TEST_P(FusedAddRmsnorm, MatchesFloat64) {
  for (const Form& form : kForms)
    for (DType dtype : float_types())
      for (std::int64_t n : kSizes) {
        const std::int64_t rows = n > 4000 ? 2 : 3;
        Buffer in(dtype, {rows, n}, uniform_int(0, 7)), residual(dtype, {rows, n}, uniform_int(0, 7)),
            w(dtype, {n}, uniform_int(0, 7));
        const double scale = uniform(0.01, 30.0);
        in.fill_normal(scale);
        residual.fill_normal(scale * uniform(0.1, 10.0));
        w.fill_normal();
        expect_right(form, in, residual, w, true, 1e-6);
      }
}

TEST_P(FusedAddRmsnorm, StridedRowsWeightOfAnyDtypeOrNone) {
  for (const Form& form : kForms)
    for (DType dtype : float_types())
      for (DType weight_dtype : float_types()) {
        Buffer in(dtype, {3, 2, 77}, 3, {400, 101, 1}), residual(dtype, {3, 2, 77}, 1, {190, 95, 1}),
            w(weight_dtype, {77});
        in.fill_normal();
        residual.fill_normal();
        w.fill_normal();
        expect_right(form, in, residual, w, weight_dtype != kFloat16, 1e-5);
      }
}

// vllm-project/vllm#52104: two forms of the operator rounded the sum at different points. Here the norm takes
// the sum unrounded, at every length and so on every path through the row.
TEST_P(FusedAddRmsnorm, NormTakesTheUnroundedSum) {
  MUSAIC_NEEDS(kBFloat16);
  for (std::int64_t n : {2, 8, 10, 4096}) {
    Buffer in(kBFloat16, {1, n}), residual(kBFloat16, {1, n}), w(kBFloat16, {n});
    in.fill([](std::int64_t) { return 1.0; });
    residual.fill([](std::int64_t i) { return i % 2 == 0 ? 0.00390625 : 0.01171875; });
    w.fill([](std::int64_t) { return 1.0; });
    fused_add_rmsnorm(in, residual, w, 1e-6);
    for (std::int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(residual.get(i), i % 2 == 0 ? 1.0 : 1.015625) << n;
      EXPECT_EQ(in.get(i), i % 2 == 0 ? 0.99609375 : 1.0) << n;
    }
  }
}

// vllm-project/vllm#53203: 1 + weight was formed in the storage dtype, which loses small weights.
TEST_P(FusedAddRmsnorm, GemmaAddsOneInFloat32) {
  MUSAIC_NEEDS(kBFloat16);
  Buffer in(kBFloat16, {1, 4}), residual(kBFloat16, {1, 4}), w(kBFloat16, {4});
  in.fill([](std::int64_t i) { return i == 0 ? 2.0 : 0.5; });
  residual.fill([](std::int64_t i) { return i == 0 ? 1.0 : 0.5; });
  w.fill([](std::int64_t) { return 0.00390625; });
  gemma_fused_add_rmsnorm(in, residual, w, 1e-6);
  EXPECT_EQ(in.values(), (std::vector<double>{1.7421875, 0.578125, 0.578125, 0.578125}));
}

// sgl-project/sglang#17946: no branch for float32, so the call succeeded and wrote nothing.
TEST_P(FusedAddRmsnorm, EveryDtypeComputesOrIsRejected) {
  for (DType dtype : float_types()) {
    Buffer in(dtype, {3, 256}), residual(dtype, {3, 256}), w(dtype, {256});
    in.fill([](std::int64_t) { return 1.0; });
    residual.fill([](std::int64_t) { return 2.0; });
    w.fill([](std::int64_t i) { return static_cast<double>(i); });
    fused_add_rmsnorm(in, residual, w, 1e-6);
    for (std::int64_t i = 0; i < in.numel(); ++i) {
      EXPECT_NEAR(in.get(i), static_cast<double>(i % 256),
                  static_cast<double>(i % 256) * (1e-5 + epsilon(dtype)));
      EXPECT_EQ(residual.get(i), 3.0);
    }
  }
  for (DType dtype : {kFloat64, kInt32, kInt8, kBool, kFloat8E4M3FN}) {
    const std::vector<unsigned char> zeros(8 * 32);
    const Tensor in(zeros.data(), dtype, {1, 16}), residual(zeros.data() + 128, dtype, {1, 16});
    expect_error(
        [&] { fused_add_rmsnorm(in, residual, Tensor()); },
        {"fused_add_rmsnorm: input: dtype " + to_string(dtype), "one of float32, float16, bfloat16"});
  }
}

TEST_P(FusedAddRmsnorm, BadRowsStayAlone) {
  Buffer x(kFloat16, {4, 65}), r(kFloat16, {4, 65}), good(kFloat16, {4, 65}), good_r(kFloat16, {4, 65}),
      w(kFloat16, {65});
  x.fill_normal();
  r.fill_normal();
  w.fill_normal();
  good.fill([&](std::int64_t i) { return x.get(i); });
  good_r.fill([&](std::int64_t i) { return r.get(i); });
  fused_add_rmsnorm(good, good_r, w);
  x.set(1 * 65 + 64, std::numeric_limits<double>::quiet_NaN());
  r.set(3 * 65, -std::numeric_limits<double>::infinity());
  fused_add_rmsnorm(x, r, w);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (i / 65 == 1) {
      std::uint16_t bits;
      std::memcpy(&bits, x.element(i), 2);
      EXPECT_EQ(bits, 0x7e00) << "a computed NaN is stored canonical";
    } else if (i / 65 != 3) {
      EXPECT_EQ(x.get(i), good.get(i));
      EXPECT_EQ(r.get(i), good_r.get(i));
    }
  }
}

TEST_P(FusedAddRmsnorm, EmptyAndZeroRows) {
  Buffer in(kFloat32, {0, 64}), residual(kFloat32, {0, 64}), w(kFloat32, {64});
  w.fill_normal();
  EXPECT_NO_THROW(fused_add_rmsnorm(in, residual, w));
  Buffer none(kFloat32, {5, 0}), none_r(kFloat32, {5, 0}), none_w(kFloat32, {0});
  EXPECT_NO_THROW(fused_add_rmsnorm(none, none_r, none_w));
  Buffer a(kFloat32, {2, 9}), b(kFloat32, {2, 9}), zw(kFloat32, {9});
  a.fill([](std::int64_t i) { return static_cast<double>(i); });
  b.fill([](std::int64_t i) { return -static_cast<double>(i); });
  zw.fill_normal();
  fused_add_rmsnorm(a, b, zw, 1e-6);
  for (double v : a.values()) EXPECT_EQ(v, 0.0);
  for (double v : b.values()) EXPECT_EQ(v, 0.0);
}

MUSAIC_EVERY_TARGET(FusedAddRmsnorm);

TEST(FusedAddRmsnormBits, SameEverywhereAndPerRow) {
  for (DType dtype : float_types())
    for (std::int64_t n : {1, 64, 255, 2048, 2049, 8192, 20000}) {
      Buffer x(dtype, {33, n}), r(dtype, {33, n}), w(dtype, {n});
      x.fill_normal();
      r.fill_normal();
      w.fill_normal();
      const std::vector<double> x_values = x.values(), r_values = r.values();
      std::vector<unsigned char> sums;
      std::vector<unsigned char> batch;
      const auto refill = [](Buffer& b, const std::vector<double>& v, std::int64_t from) {
        b.fill([&](std::int64_t i) { return v[static_cast<std::size_t>(from + i)]; });
      };
      expect_same_bytes_everywhere([&] {
        refill(x, x_values, 0);
        refill(r, r_values, 0);
        fused_add_rmsnorm(x, r, w);
        batch = x.bytes();
        sums = r.bytes();
        std::vector<unsigned char> both = batch;
        both.insert(both.end(), sums.begin(), sums.end());
        return both;
      });
      Buffer one(dtype, {1, n}), one_r(dtype, {1, n}, 1);
      refill(one, x_values, 17 * n);
      refill(one_r, r_values, 17 * n);
      fused_add_rmsnorm(one, one_r, w);
      const std::vector<unsigned char> alone = one.bytes();
      const auto at = static_cast<std::ptrdiff_t>(17 * alone.size());
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), batch.begin() + at));
      const std::vector<unsigned char> alone_r = one_r.bytes();
      EXPECT_TRUE(std::equal(alone_r.begin(), alone_r.end(), sums.begin() + at));
    }
}

// One contract for the plain and the fused form: where the addition is exact, both give the same bits.
TEST(FusedAddRmsnormBits, EqualsRmsnormWhenTheResidualIsZero) {
  for (DType dtype : float_types())
    for (std::int64_t n : {7, 769, 4096}) {
      Buffer x(dtype, {2, n}), zero(dtype, {2, n}), w(dtype, {n}), out(dtype, {2, n});
      x.fill_normal();
      w.fill_normal();
      zero.fill([](std::int64_t) { return 0.0; });
      rmsnorm(out, x, w);
      fused_add_rmsnorm(x, zero, w);
      EXPECT_EQ(x.bytes(), out.bytes());
    }
}

TEST(FusedAddRmsnormErrors, NameTheArgument) {
  Buffer in(kFloat32, {4, 8}), r(kFloat32, {4, 8}), w(kFloat32, {8}), w7(kFloat32, {7}),
      half(kFloat16, {4, 8}), r9(kFloat32, {4, 9});
  expect_error([&] { fused_add_rmsnorm(in, r, w7); },
               {"fused_add_rmsnorm: weight: shape [7]", "hidden_size=8", "from input"});
  expect_error([&] { fused_add_rmsnorm(in, half, w); },
               {"fused_add_rmsnorm: residual: dtype float16", "float32 (from input)"});
  expect_error([&] { fused_add_rmsnorm(in, r9, w); },
               {"fused_add_rmsnorm: residual: shape [4, 9]", "[4, 8] (from input)"});
  expect_error([&] { fused_add_rmsnorm(in, Tensor(), w); }, {"fused_add_rmsnorm: residual: no tensor"});
  expect_error([&] { fused_add_rmsnorm(in, in, w); },
               {"fused_add_rmsnorm: residual: memory that overlaps input"});
  expect_error([&] { gemma_fused_add_rmsnorm(in, r, r.tensor()[0]); },
               {"gemma_fused_add_rmsnorm: residual: memory that overlaps weight"});
  expect_error([&] { gemma_fused_add_rmsnorm(in, r, w, -1.0); }, {"gemma_fused_add_rmsnorm: eps: -1"});
  const Tensor columns(in.tensor().data(), kFloat32, {4, 4}, {8, 2});
  expect_error([&] { fused_add_rmsnorm(columns, r, Tensor()); },
               {"fused_add_rmsnorm: input: stride 2 in the last dimension"});
  EXPECT_NO_THROW(fused_add_rmsnorm(in.fill_normal(), r.fill_normal(), w.fill_normal()));
}

}  // namespace
}  // namespace musaic::testing
