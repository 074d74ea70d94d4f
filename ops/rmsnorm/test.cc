#include <cstring>
#include <limits>

#include "ops/rmsnorm/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

constexpr std::int64_t kSizes[] = {1,    2,    3,    5,    7,    8,    9,    33,   111,
                                   255,  256,  257,  500,  768,  769,  1000, 1023, 1025,
                                   2047, 2048, 2049, 3584, 8191, 8192, 8193, 8200, 16385};

using Function = void (*)(const Tensor&, const Tensor&, const Tensor&, double, Stream);
struct Form {
  Function call;
  double weight_offset;
};
constexpr Form kForms[] = {{&rmsnorm, 0.0}, {&gemma_rmsnorm, 1.0}};

/// The sum has relative error below (n / W + log2 W + 1) u32 and enters at half its size; the products add 4
/// u32; the result is rounded once.
double tolerance(double expected, std::int64_t n, DType dtype) {
  const double u32 = epsilon(kFloat32);
  const double relative = epsilon(dtype) + (4.0 + 0.5 * (static_cast<double>(n) / 256.0 + 12.0)) * u32;
  return std::fabs(expected) * relative * 1.01 + smallest(dtype);
}

void expect_rows_right(const Buffer& input, Buffer& in, Buffer& w, Buffer& out, double eps,
                       double weight_offset) {
  const std::int64_t n = input.tensor().size(input.tensor().ndim() - 1);
  const std::vector<double> x = in.values(), weight = w.values(), y = out.values();
  for (std::int64_t r = 0; r * n < in.numel(); ++r) {
    const auto begin = static_cast<std::size_t>(r * n), end = static_cast<std::size_t>((r + 1) * n);
    const std::vector<double> expected =
        reference::rmsnorm({x.data() + begin, x.data() + end}, weight, eps, weight_offset);
    expect_close(
        {y.data() + begin, y.data() + end}, expected,
        [&](std::int64_t i) {
          return tolerance(expected[static_cast<std::size_t>(i)], n, out.tensor().dtype());
        },
        "row " + std::to_string(r) + " of " + std::to_string(n) + " " + to_string(out.tensor().dtype()));
  }
}

class Rmsnorm : public OnTarget {};

TEST_P(Rmsnorm, MatchesFloat64) {
  for (const Form& form : kForms)
    for (DType dtype : float_types())
      for (std::int64_t n : kSizes) {
        const std::int64_t rows = n > 4000 ? 2 : 3, shift = uniform_int(0, 7);
        Buffer in(dtype, {rows, n}, shift), w(dtype, {n}, uniform_int(0, 7)),
            out(dtype, {rows, n}, uniform_int(0, 7));
        in.fill_normal(uniform(0.01, 30.0));
        w.fill_normal();
        form.call(out, in, w, 1e-6, {});
        expect_rows_right(in, in, w, out, static_cast<float>(1e-6), form.weight_offset);
        out.expect_guards_intact("out");
      }
}

TEST_P(Rmsnorm, WeightOfAnyDtypeOrNone) {
  for (DType dtype : float_types())
    for (DType weight_dtype : float_types()) {
      Buffer in(dtype, {2, 77}), w(weight_dtype, {77}), out(dtype, {2, 77});
      in.fill_normal();
      w.fill_normal();
      rmsnorm(out, in, w, 1e-5);
      expect_rows_right(in, in, w, out, static_cast<float>(1e-5), 0.0);
    }
  Buffer in(kFloat32, {2, 77}), ones(kFloat32, {77}), a(kFloat32, {2, 77}), b(kFloat32, {2, 77});
  in.fill_normal();
  ones.fill([](std::int64_t) { return 1.0; });
  rmsnorm(a, in, Tensor());
  rmsnorm(b, in, ones);
  EXPECT_EQ(a.bytes(), b.bytes());
}

// ROCm/aiter#5044: with an odd hidden size the vector tail of one row spilled into later rows.
TEST_P(Rmsnorm, OddHiddenSizesKeepToTheirRow) {
  for (std::int64_t n : {1, 2, 3, 5, 7, 33, 111, 500, 767, 768, 769, 1000, 1023, 1025, 3584, 8200}) {
    Buffer in(kFloat16, {7, n}), w(kFloat16, {n}), out(kFloat16, {7, n});
    in.fill([&](std::int64_t i) { return static_cast<double>(i / n + 1); });
    w.fill([](std::int64_t c) { return static_cast<double>(c % 7 - 3); });
    rmsnorm(out, in, w, 1e-6);
    expect_close(
        out.values(),
        [&] {
          std::vector<double> e;
          for (std::int64_t i = 0; i < 7 * n; ++i) e.push_back(static_cast<double>((i % n) % 7 - 3));
          return e;
        }(),
        [](std::int64_t) { return 3 * 0x1p-10; }, "n = " + std::to_string(n));
    out.expect_guards_intact("out");
  }
}

// vllm-project/vllm#53203: 1 + weight was formed in the storage dtype, which loses small weights.
TEST_P(Rmsnorm, GemmaAddsOneInFloat32) {
  MUSAIC_NEEDS(kBFloat16);
  Buffer in(kBFloat16, {1, 4}), w(kBFloat16, {4}), out(kBFloat16, {1, 4});
  in.fill([](std::int64_t i) { return i == 0 ? 3.0 : 1.0; });
  w.fill([](std::int64_t) { return 0.00390625; });
  gemma_rmsnorm(out, in, w, 1e-6);
  EXPECT_EQ(out.values(), (std::vector<double>{1.7421875, 0.578125, 0.578125, 0.578125}));
}

// vllm-project/vllm#28103: the row stride of a slice of packed q, k, v was ignored.
TEST_P(Rmsnorm, SlicesOfPackedTensors) {
  const std::vector<std::int64_t> flat = {4, 128}, heads = {4, 2, 64};
  for (const auto& shape : {flat, heads}) {
    Buffer packed(kFloat32, {4, 3, 128});
    packed.fill([](std::int64_t i) {
      return 1000.0 * static_cast<double>(i / 384) + 10.0 * static_cast<double>(i / 128 % 3) +
             static_cast<double>(i % 128) / 128;
    });
    const std::vector<double> before = packed.values();
    const bool three = shape.size() == 3;
    const auto middle_of_packed = [&] {
      return three ? packed.view(128, {4, 2, 64}, {384, 64, 1}) : packed.view(128, {4, 128}, {384, 1});
    };
    const Tensor middle = middle_of_packed();
    const std::int64_t n = shape.back();
    Buffer w(kFloat32, {n}), copy(kFloat32, shape), expected(kFloat32, shape), out(kFloat32, shape);
    w.fill_normal();
    copy.fill(
        [&](std::int64_t i) { return before[static_cast<std::size_t>(i / 128 * 384 + 128 + i % 128)]; });
    rmsnorm(expected, copy, w);
    rmsnorm(out, middle, w);
    EXPECT_EQ(out.bytes(), expected.bytes());
    EXPECT_EQ(packed.values(), before);
    const Tensor again = middle_of_packed();
    rmsnorm(again, again, w);
    std::vector<double> after = packed.values();
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (i / 128 % 3 == 1)
        EXPECT_EQ(after[i], expected.get(static_cast<std::int64_t>(i / 384 * 128 + i % 128)));
      else
        EXPECT_EQ(after[i], before[i]);
    }
  }
}

TEST_P(Rmsnorm, BadRowsStayAlone) {
  MUSAIC_NEEDS(kBFloat16);
  Buffer in(kBFloat16, {4, 65}), w(kBFloat16, {65}), good(kBFloat16, {4, 65}), out(kBFloat16, {4, 65});
  in.fill_normal();
  w.fill_normal();
  rmsnorm(good, in, w);
  in.set(1 * 65 + 64, std::numeric_limits<double>::quiet_NaN());
  in.set(3 * 65, -std::numeric_limits<double>::infinity());
  rmsnorm(out, in, w);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    if (i / 65 == 1) {
      EXPECT_TRUE(std::isnan(out.get(i)));
      std::uint16_t bits;
      std::memcpy(&bits, out.element(i), 2);
      EXPECT_EQ(bits, 0x7fc0) << "a computed NaN is stored canonical";
    } else if (i / 65 != 3) {
      EXPECT_EQ(out.get(i), good.get(i));
    }
  }
}

TEST_P(Rmsnorm, EmptyAndZeroRows) {
  Buffer in(kFloat32, {0, 64}), w(kFloat32, {64}), out(kFloat32, {0, 64});
  w.fill_normal();
  EXPECT_NO_THROW(rmsnorm(out, in, w));
  Buffer none(kFloat32, {5, 0}), none_w(kFloat32, {0}), none_out(kFloat32, {5, 0});
  EXPECT_NO_THROW(rmsnorm(none_out, none, none_w));
  Buffer zeros(kFloat32, {2, 9}), zw(kFloat32, {9}), zout(kFloat32, {2, 9});
  zeros.fill([](std::int64_t) { return 0.0; });
  zw.fill_normal();
  rmsnorm(zout, zeros, zw, 1e-6);
  for (double v : zout.values()) EXPECT_EQ(v, 0.0);
}

MUSAIC_EVERY_TARGET(Rmsnorm);

TEST(RmsnormBits, SameEverywhereAndPerRow) {
  for (DType dtype : float_types())
    for (std::int64_t n : {1, 64, 255, 2048, 2049, 8192, 20000}) {
      Buffer in(dtype, {33, n}), w(dtype, {n});
      in.fill_normal();
      w.fill_normal();
      std::vector<unsigned char> batch;
      expect_same_bytes_everywhere([&] {
        Buffer out(dtype, {33, n});
        rmsnorm(out, in, w);
        return batch = out.bytes();
      });
      Buffer one(dtype, {1, n});
      rmsnorm(one, in.tensor().slice(0, 17, 18), w);
      const std::vector<unsigned char> alone = one.bytes();
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                             batch.begin() + static_cast<std::ptrdiff_t>(17 * alone.size())));
    }
}

TEST(RmsnormErrors, NameTheArgument) {
  Buffer in(kFloat32, {4, 8}), out(kFloat32, {4, 8}), w(kFloat32, {8}), w7(kFloat32, {7}),
      ints(kInt32, {4, 8}), half(kFloat16, {4, 8}), out2(kFloat32, {4, 9}), w2(kFloat64, {8});
  expect_error([&] { rmsnorm(out, ints, w); }, {"rmsnorm: input: dtype int32", "float32, float16, bfloat16"});
  expect_error([&] { rmsnorm(out, in, w7); }, {"rmsnorm: weight: shape [7]", "hidden_size=8", "from input"});
  expect_error([&] { rmsnorm(half, in, w); }, {"rmsnorm: out: dtype float16", "float32 (from input)"});
  expect_error([&] { rmsnorm(out2, in, w); }, {"rmsnorm: out: shape [4, 9]", "[4, 8] (from input)"});
  expect_error([&] { rmsnorm(out, in, w2); }, {"rmsnorm: weight: dtype float64"});
  expect_error([&] { rmsnorm(Tensor(), in, w); }, {"rmsnorm: out: no tensor"});
  expect_error([&] { rmsnorm(out, in, w, -1.0); }, {"rmsnorm: eps: -1"});
  expect_error([&] { gemma_rmsnorm(in.tensor().slice(0, 1, 4), in.tensor().slice(0, 0, 3), w); },
               {"gemma_rmsnorm: out: memory that overlaps input"});
  const Tensor columns(in.tensor().data(), kFloat32, {4, 4}, {8, 2});
  expect_error([&] { rmsnorm(columns, columns, Tensor()); },
               {"rmsnorm: input: stride 2 in the last dimension"});
  const Tensor odd(in.tensor().data_as<char>() + 1, kFloat32, {1, 4});
  expect_error([&] { rmsnorm(odd, odd, Tensor()); }, {"rmsnorm: input: an address 1 bytes off"});
  const Tensor gpu(in.tensor().data(), kFloat32, {4, 8}, Device{DeviceType::kCuda, 0});
  expect_error([&] { rmsnorm(out, gpu, w); }, {"rmsnorm: out: device cpu", "cuda:0 (from input)"});
  EXPECT_NO_THROW(rmsnorm(out, in.fill_normal(), w.fill_normal()));
}

}  // namespace
}  // namespace musaic::testing
