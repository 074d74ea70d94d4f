#include <cstring>
#include <limits>

#include "ops/ggml_dequantize/random_weights.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

std::int64_t number(const GgmlLayout& layout) { return static_cast<std::int64_t>(layout.type); }

/// Weight bytes in a guarded tensor; block formats at an odd address when asked.
Buffer weight_buffer(const std::vector<unsigned char>& bytes, std::int64_t offset) {
  Buffer w(kUInt8, {static_cast<std::int64_t>(bytes.size())}, offset);
  w.set_bytes(bytes);
  return w;
}

class GgmlDequantize : public OnTarget {};

TEST_P(GgmlDequantize, IsTheFormulaRoundedTwice) {
  for (const GgmlLayout& layout : kGgmlLayouts)
    for (DType dtype : float_types())
      for (std::int64_t n : {1, 31, 32, 33, 255, 256, 257, 608, 1000}) {
        const std::int64_t m = uniform_int(1, 5), blocks = ggml_blocks(layout, m * n);
        const std::vector<unsigned char> bytes = reference::random_weights(layout, blocks);
        Buffer w = weight_buffer(bytes, is_plain(layout) ? 0 : uniform_int(0, 3));
        Buffer out(dtype, {m, n}, uniform_int(0, 3));
        out.poison();
        ggml_dequantize(out, w, number(layout), m, n);
        std::vector<double> expected;
        for (std::int64_t i = 0; i < m * n; ++i) {
          const double exact = reference::weight_element(
                                   layout.type, bytes.data() + i / layout.block_elements * layout.block_bytes,
                                   static_cast<int>(i % layout.block_elements))
                                   .value();
          expected.push_back(round_to(dtype, round_to(kFloat32, exact)));
        }
        ASSERT_EQ(out.values(), expected)
            << layout.name << " to " << to_string(dtype) << ", " << m << " x " << n;
        out.expect_guards_intact("out");
      }
}

// vllm-project/vllm#30090: the kernel wrote float16 whatever the output's type.
TEST_P(GgmlDequantize, WritesTheDeclaredType) {
  for (double d : {0.1, 1000.0})
    for (DType dtype : float_types()) {
      std::vector<unsigned char> bytes(8 * 34);
      for (int b = 0; b < 8; ++b) {
        from_double(bytes.data() + 34 * b, kFloat16, d);
        for (int i = 0; i < 32; ++i)
          bytes[static_cast<std::size_t>(34 * b + 2 + i)] = static_cast<unsigned char>(32 * b + i);
      }
      Buffer w = weight_buffer(bytes, 0), out(dtype, {8, 32});
      ggml_dequantize(out, w, 8, 8, 32);
      for (int i = 0; i < 256; ++i)
        EXPECT_EQ(out.get(i), round_to(dtype, round_to(kFloat16, d) * static_cast<signed char>(i)));
      if (d == 1000.0) {
        const double e = dtype == kFloat32    ? 127000.0
                         : dtype == kBFloat16 ? 126976.0
                                              : std::numeric_limits<double>::infinity();
        EXPECT_EQ(out.get(127), e);
      }
    }
}

TEST_P(GgmlDequantize, SpecialScales) {
  std::vector<unsigned char> bytes(4 * 34, 1);
  from_double(bytes.data(), kFloat16, std::numeric_limits<double>::quiet_NaN());
  from_double(bytes.data() + 34, kFloat16, -std::numeric_limits<double>::infinity());
  from_double(bytes.data() + 68, kFloat16, 0x1p-24);
  from_double(bytes.data() + 102, kFloat16, -0.0);
  Buffer w = weight_buffer(bytes, 1), out(kFloat16, {4, 32});
  ggml_dequantize(out, w, 8, 4, 32);
  std::uint16_t bits;
  std::memcpy(&bits, out.element(3), 2);
  EXPECT_EQ(bits, 0x7e00);
  EXPECT_EQ(out.get(32), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(out.get(64), 0x1p-24);
  EXPECT_TRUE(std::signbit(out.get(96)));
}

TEST_P(GgmlDequantize, NothingToDo) {
  Buffer none(kUInt8, {0}), out(kFloat32, {0, 64}), flat(kFloat32, {7, 0});
  EXPECT_NO_THROW(ggml_dequantize(out, none, 2, 0, 64));
  EXPECT_NO_THROW(ggml_dequantize(flat, none, 12, 7, 0));
}

MUSAIC_EVERY_TARGET(GgmlDequantize);

TEST(GgmlDequantizeBits, SameEverywhere) {
  for (const GgmlLayout& layout : kGgmlLayouts)
    for (DType dtype : float_types()) {
      const std::vector<unsigned char> bytes =
          reference::random_weights(layout, ggml_blocks(layout, 17 * 999));
      Buffer w = weight_buffer(bytes, 0);
      expect_same_bytes_everywhere([&] {
        Buffer out(dtype, {17, 999});
        ggml_dequantize(out, w, number(layout), 17, 999);
        return out.bytes();
      });
    }
}

// vllm-project/vllm#44971: the element count was 32 bits wide.
TEST(GgmlRowBytes, SixtyFourBits) {
  EXPECT_EQ(ggml_row_bytes(2, std::int64_t{65536} * 65536), (std::int64_t{1} << 32) / 32 * 18);
  EXPECT_EQ(ggml_row_bytes(14, (std::int64_t{1} << 40) + 1), ((std::int64_t{1} << 32) + 1) * 210);
  for (const GgmlLayout& l : kGgmlLayouts) {
    EXPECT_EQ(ggml_row_bytes(number(l), 0), 0);
    EXPECT_EQ(ggml_row_bytes(number(l), 1), l.block_bytes);
    EXPECT_EQ(ggml_row_bytes(number(l), l.block_elements * 3), 3 * l.block_bytes);
    EXPECT_EQ(ggml_row_bytes(number(l), l.block_elements * 3 + 1), 4 * l.block_bytes);
  }
  expect_error([] { ggml_row_bytes(0, std::numeric_limits<std::int64_t>::max()); }, {"ggml_row_bytes: size"});
  expect_error([] { ggml_row_bytes(2, -1); }, {"ggml_row_bytes: size: 1 x -1"});
}

// vllm-project/vllm#10675: unknown and unquantised types fell into a kernel or returned silently.
TEST(GgmlDequantizeErrors, TypesThatThereAreNot) {
  Buffer w(kUInt8, {36}), out(kFloat32, {1, 64});
  for (std::int64_t type : {std::int64_t{4}, std::int64_t{5}, std::int64_t{9}, std::int64_t{255},
                            std::int64_t{1000000}, std::int64_t{-1}, (std::int64_t{1} << 32) + 2}) {
    expect_error(
        [&] { ggml_dequantize(out, w, type, 1, 64); },
        {"ggml_dequantize: type: " + std::to_string(type), "F32 (0), F16 (1), Q4_0 (2)", "BF16 (30)"});
    expect_error([&] { ggml_row_bytes(type, 64); }, {"ggml_row_bytes: type: " + std::to_string(type)});
  }
  expect_error([&] { ggml_dequantize(out, w, 4, 1, 64); }, {"Q4_2, retired"});
  expect_error([&] { ggml_dequantize(out, w, 10, 1, 64); }, {"10 (Q2_K)"});
}

TEST(GgmlDequantizeErrors, NameTheArgument) {
  Buffer w(kUInt8, {36}), longer(kUInt8, {37}), floats(kFloat32, {9}), out(kFloat32, {2, 32}),
      ints(kInt32, {2, 32});
  expect_error([&] { ggml_dequantize(out, longer, 2, 2, 32); },
               {"ggml_dequantize: weight: 37 bytes", "36 bytes (64 elements of Q4_0"});
  expect_error([&] { ggml_dequantize(out, floats, 2, 2, 32); }, {"weight: dtype float32"});
  expect_error([&] { ggml_dequantize(ints, w, 2, 2, 32); }, {"out: dtype int32"});
  expect_error([&] { ggml_dequantize(out, w, 2, 3, 32); }, {"out: shape [2, 32]", "m=3"});
  expect_error([&] { ggml_dequantize(out, w, 2, 2, -32); }, {"out: shape"});
  const Tensor apart(out.tensor().data(), kFloat32, {2, 16}, {32, 1});
  expect_error([&] { ggml_dequantize(apart, w, 2, 2, 16); }, {"out: strides"});
  Buffer plain(kUInt8, {256}, 1);
  expect_error([&] { ggml_dequantize(out, plain, 0, 2, 32); }, {"weight: an address 1 bytes off", "F32"});
  const Tensor inside(out.tensor().data(), kUInt8, {36});
  expect_error([&] { ggml_dequantize(out, inside, 2, 2, 32); }, {"overlaps"});
}

}  // namespace
}  // namespace musaic::testing
