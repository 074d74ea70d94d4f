#include <cstring>
#include <limits>

#include "ops/argmax/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr std::int64_t kSizes[] = {1,  2,  3,  5,   7,   8,    9,    11,   15,   17,   31,    33,
                                   63, 65, 97, 127, 129, 1000, 2047, 2048, 2049, 4099, 32768, 128256};

std::int64_t integer(Buffer& b, std::int64_t i) { return static_cast<std::int64_t>(b.get(i)); }

void expect_right(Buffer& in, DType out_dtype = kInt64) {
  const std::int64_t rows = in.tensor().size(0), n = in.tensor().size(1);
  Buffer out(out_dtype, {rows}, uniform_int(0, 5));
  const std::vector<unsigned char> before = in.bytes();
  argmax(out, in);
  const std::vector<double> x = in.values();
  for (std::int64_t r = 0; r < rows; ++r)
    EXPECT_EQ(integer(out, r), reference::argmax({x.data() + r * n, x.data() + (r + 1) * n}))
        << "row " << r << " of " << n << " " << to_string(in.tensor().dtype());
  out.expect_guards_intact("out");
  EXPECT_EQ(in.bytes(), before);
}

class Argmax : public OnTarget {};

TEST_P(Argmax, MatchesTheOrder) {
  for (DType dtype : float_types())
    for (std::int64_t n : kSizes) {
      if (is_slow() && n > 40000) continue;  // 32768 takes the same way there
      Buffer in(dtype, {n > 10000 ? scaled<std::int64_t>(2, 1) : scaled<std::int64_t>(5, 2), n},
                uniform_int(0, 7));
      in.fill_normal();
      expect_right(in, n % 2 == 0 ? kInt32 : kInt64);
      in.fill([](std::int64_t) { return static_cast<double>(uniform_int(-2, 2)); });  // ties
      expect_right(in, kInt32);
    }
}

TEST_P(Argmax, EveryPositionIsFound) {
  for (std::int64_t n : {std::int64_t{1}, std::int64_t{7}, std::int64_t{8}, std::int64_t{9}, std::int64_t{33},
                         std::int64_t{65}, scaled<std::int64_t>(300, 67)}) {
    Buffer in(kFloat32, {n, n});
    in.fill([&](std::int64_t i) { return i / n == i % n ? -1.0 : -2.0; });
    expect_right(in);
  }
}

TEST_P(Argmax, ZerosInfinitiesAndNans) {
  const std::vector<std::vector<double>> rows = {
      {-0.0, 0.0, -1.0},   {-1.0, 0.0, -0.0}, {-kInf, -kInf, -kInf}, {kNan, kNan, kNan}, {kNan, -kInf, kNan},
      {kNan, -kInf, -5.0}, {1.0, kInf, kInf}, {kNan, 3.0, 3.0},      {-0.0, -0.0, kNan}};
  for (DType dtype : float_types())
    for (std::int64_t repeat : {1, 11, 700}) {  // within a vector, across vectors, across parts
      const auto count = static_cast<std::int64_t>(rows.size()), n = 3 * repeat;
      Buffer in(dtype, {count, n});
      in.fill([&](std::int64_t i) {
        return rows[static_cast<std::size_t>(i / n)][static_cast<std::size_t>(i % n / repeat)];
      });
      expect_right(in);
    }
}

// apache/tvm#12274: a lane that does not exist gave 0, which wins over negative numbers.
TEST_P(Argmax, NegativeRowsOfOddLengths) {
  for (std::int64_t n : {1, 2, 3, 11, 17, 31, 33})
    for (double low : {0.0, -1000.0}) {
      Buffer in(kFloat32, {2, n});
      in.fill([&](std::int64_t i) { return low - static_cast<double>(i % n + 1); });
      Buffer out(kInt64, {2});
      argmax(out, in);
      EXPECT_EQ(integer(out, 0), 0);
      EXPECT_EQ(integer(out, 1), 0);
      in.fill([&](std::int64_t i) { return low - static_cast<double>(n - i % n); });
      argmax(out, in);
      EXPECT_EQ(integer(out, 1), n - 1);
    }
}

TEST_P(Argmax, StridedRowsAndOutputs) {
  Buffer in(kFloat16, {7, 50}, 3, {64, 1}), out(kInt32, {7}, 0, {3});
  in.fill_normal();
  argmax(out, in);
  const std::vector<double> x = in.values();
  for (std::int64_t r = 0; r < 7; ++r)
    EXPECT_EQ(integer(out, r), reference::argmax({x.data() + r * 50, x.data() + (r + 1) * 50}));
  out.expect_guards_intact("out");
}

TEST_P(Argmax, Empty) {
  Buffer in(kFloat32, {0, 50}), none(kFloat32, {0, 0}), out(kInt32, {0});
  EXPECT_NO_THROW(argmax(out, in));
  EXPECT_NO_THROW(argmax(out, none));
}

MUSAIC_EVERY_TARGET(Argmax);

TEST(ArgmaxBits, SameEverywhere) {
  for (std::int64_t n : {1, 33, 5000}) {
    Buffer in(kFloat16, {37, n});
    in.fill([](std::int64_t) { return static_cast<double>(uniform_int(-3, 3)); });
    expect_same_bytes_everywhere([&] {
      Buffer out(kInt32, {37});
      argmax(out, in);
      return out.bytes();
    });
  }
}

TEST(ArgmaxErrors, NameTheArgument) {
  Buffer in(kFloat32, {4, 8}), out(kInt32, {4}), out5(kInt32, {5}), floats(kFloat32, {4}),
      ints(kInt32, {4, 8}), none(kFloat32, {4, 0});
  expect_error([&] { argmax(out5, in); }, {"argmax: out: shape [5]", "batch_size=4", "from input"});
  expect_error([&] { argmax(floats, in); }, {"argmax: out: dtype float32", "int32, int64"});
  expect_error([&] { argmax(out, ints); }, {"argmax: input: dtype int32"});
  expect_error([&] { argmax(out, none); }, {"argmax: input: rows of 0 entries", "at least one"});
  expect_error([&] { argmax(Tensor(), in); }, {"argmax: out: no tensor"});
  expect_error([&] { argmax(out, Tensor()); }, {"argmax: input: no tensor"});
  const Tensor columns(in.tensor().data(), kFloat32, {4, 4}, {8, 2});
  expect_error([&] { argmax(out, columns); }, {"argmax: input: stride 2"});
}

}  // namespace
}  // namespace musaic::testing
