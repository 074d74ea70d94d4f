#include <cmath>
#include <cstring>
#include <limits>

#include "ops/token_bitmask/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

void random_words(Buffer& mask) {
  for (std::int64_t i = 0; i < mask.numel(); ++i) {
    const auto word = uniform_int(0, 3) == 0 ? 0u : static_cast<std::uint32_t>(rng()());
    std::memcpy(mask.element(i), &word, 4);
  }
}
std::vector<std::uint32_t> words_of(const Buffer& mask, std::int64_t row, std::int64_t words) {
  const std::vector<unsigned char> bytes = mask.bytes();
  std::vector<std::uint32_t> w(static_cast<std::size_t>(words));
  if (words > 0)
    std::memcpy(w.data(), &bytes[static_cast<std::size_t>(4 * row * words)],
                static_cast<std::size_t>(4 * words));
  return w;
}

class TokenBitmask : public OnTarget {};

TEST_P(TokenBitmask, EverySizeAndMask) {
  for (const DType dtype : float_types())
    for (const std::int64_t vocab : {1, 7, 31, 32, 33, 70, 130, 1000, 8192, 8193, 20001}) {
      if (is_slow() && vocab == 20001 && dtype != kFloat16) continue;
      for (const std::int64_t fewer : {0, 1}) {
        const std::int64_t words = (vocab + 31) / 32 - fewer;
        Buffer logits(dtype, {3, vocab}, fewer, {vocab + 5, 1}), mask(kInt32, {4, words}, 1, {words + 2, 1});
        logits.fill_normal();
        random_words(mask);
        const std::vector<double> before = logits.values();
        apply_token_bitmask_inplace(logits, mask);
        const std::vector<double> after = logits.values();
        for (std::int64_t r = 0; r < 3; ++r) {
          const std::vector<double> expected = reference::apply_token_bitmask(
              {before.begin() + r * vocab, before.begin() + (r + 1) * vocab}, words_of(mask, r, words));
          for (std::int64_t v = 0; v < vocab; ++v)
            ASSERT_EQ(after[static_cast<std::size_t>(r * vocab + v)], expected[static_cast<std::size_t>(v)])
                << "token " << v << " of " << vocab << ", row " << r;
        }
        logits.expect_guards_intact("logits");
      }
    }
}

TEST_P(TokenBitmask, C48TokensPastTheMask) {
  for (const auto& [vocab, words] : {std::pair<std::int64_t, std::int64_t>{scaled<std::int64_t>(151936, 9000),
                                                                           scaled<std::int64_t>(4740, 280)},
                                     {70, 2},
                                     {33, 1}})
    for (const int bit : {0, 1}) {
      Buffer logits(kFloat32, {1, vocab}), mask(kInt32, {1, words});
      logits.fill([](std::int64_t) { return 1.0; });
      mask.fill([b = bit](std::int64_t) { return b == 1 ? -1.0 : 0.0; });
      apply_token_bitmask_inplace(logits, mask);
      const std::vector<double> x = logits.values();
      for (std::int64_t v = 0; v < vocab; ++v)
        ASSERT_EQ(x[static_cast<std::size_t>(v)], bit == 1 && v < 32 * words ? 1.0 : -kInf) << "token " << v;
    }
}

TEST_P(TokenBitmask, C49RowStrides) {
  for (const DType dtype : float_types()) {
    Buffer logits(dtype, {3, 130}, 0, {200, 1}), mask(kInt32, {3, 5}, 0, {7, 1});
    logits.fill_normal();
    logits.poison();  // NaN payloads, whose bits must stay
    for (std::int64_t i = 0; i < 15; ++i) {
      std::uint32_t word = 0;
      for (std::int64_t b = 0; b < 32; ++b)
        if ((i / 5 + i % 5 * 32 + b) % 3 == 0) word |= 1u << b;
      std::memcpy(mask.element(i), &word, 4);
    }
    const std::vector<unsigned char> before = logits.bytes();
    apply_token_bitmask_inplace(logits, mask);
    const std::vector<unsigned char> after = logits.bytes();
    const auto item = static_cast<std::size_t>(size_bytes(dtype));
    for (std::int64_t i = 0; i < 3 * 130; ++i) {
      if ((i / 130 + i % 130) % 3 == 0)
        EXPECT_EQ(std::memcmp(&after[static_cast<std::size_t>(i) * item],
                              &before[static_cast<std::size_t>(i) * item], item),
                  0);
      else
        EXPECT_EQ(logits.get(i), -kInf);
    }
    logits.expect_guards_intact("logits");
  }
}

TEST_P(TokenBitmask, RowsByIndex) {
  for (const DType index_dtype : {kInt32, kInt64}) {
    Buffer logits(kFloat32, {6, 40}), mask(kInt32, {6, 2}), indices(index_dtype, {4}, 0, {2});
    logits.fill_normal();
    random_words(mask);
    const double rows[] = {4, 1, 4, 5};
    indices.fill([&](std::int64_t i) { return rows[i]; });
    const std::vector<double> before = logits.values();
    apply_token_bitmask_inplace(logits, mask, indices);
    EXPECT_NO_THROW(check(device()));
    const std::vector<double> after = logits.values();
    for (std::int64_t r = 0; r < 6; ++r) {
      std::vector<double> expected(before.begin() + r * 40, before.begin() + (r + 1) * 40);
      if (r == 1 || r >= 4) expected = reference::apply_token_bitmask(expected, words_of(mask, r, 2));
      EXPECT_EQ(std::vector<double>(after.begin() + r * 40, after.begin() + (r + 1) * 40), expected)
          << "row " << r;
    }
    for (const double bad : {-1.0, 6.0}) {
      indices.set(1, bad);
      apply_token_bitmask_inplace(logits, mask, indices);
      expect_error([] { check(device()); }, {"apply_token_bitmask_inplace: indices: ", " at 1"});
    }
    logits.expect_guards_intact("logits");
  }
}

TEST_P(TokenBitmask, OneRowAndEmpty) {
  Buffer logits(kFloat32, {10}), mask(kInt32, {1}), none(kFloat32, {0, 10}), masks(kInt32, {0, 1}),
      no_rows(kInt32, {0});
  logits.fill([](std::int64_t i) { return static_cast<double>(i); });
  mask.fill([](std::int64_t) { return 0x155; });
  apply_token_bitmask_inplace(logits, mask);
  for (std::int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(logits.get(i), i % 2 == 0 && i < 10 ? static_cast<double>(i) : -kInf);
  EXPECT_NO_THROW(apply_token_bitmask_inplace(none, masks));
  EXPECT_NO_THROW(apply_token_bitmask_inplace(logits, mask, no_rows));
}

MUSAIC_EVERY_TARGET(TokenBitmask);

TEST(TokenBitmaskBits, SameEverywhere) {
  Buffer mask(kInt32, {3, 300});
  random_words(mask);
  expect_same_bytes_everywhere([&] {
    Buffer logits(kFloat16, {3, 9590});
    logits.fill([](std::int64_t i) { return static_cast<double>(i % 91) - 40; });
    apply_token_bitmask_inplace(logits, mask);
    return logits.bytes();
  });
}

TEST(TokenBitmaskErrors, NameTheArgument) {
  use_target(targets()[0]);
  const Buffer logits(kFloat32, {4, 40}), mask(kInt32, {4, 2}), wide(kInt32, {4, 3}), few(kInt32, {3, 2}),
      wrong(kInt64, {4, 2}), ints(kInt32, {4, 40}), floats(kFloat32, {2});
  expect_error([&] { apply_token_bitmask_inplace(ints, mask); },
               {"apply_token_bitmask_inplace: logits: dtype int32"});
  expect_error([&] { apply_token_bitmask_inplace(logits, wrong); },
               {"apply_token_bitmask_inplace: bitmask: dtype int64"});
  expect_error([&] { apply_token_bitmask_inplace(logits, wide); },
               {"apply_token_bitmask_inplace: bitmask: 3 words", "at most 2"});
  expect_error([&] { apply_token_bitmask_inplace(logits, few); },
               {"apply_token_bitmask_inplace: bitmask: 3 rows", "at least the 4"});
  expect_error([&] { apply_token_bitmask_inplace(logits, mask, floats); },
               {"apply_token_bitmask_inplace: indices: dtype float32"});
}

}  // namespace
}  // namespace musaic::testing
