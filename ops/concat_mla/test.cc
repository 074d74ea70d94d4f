#include <array>

#include "ops/concat_mla/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

using Bytes = std::vector<unsigned char>;

/// Elements of any bits, NaN payloads included.
void random_bits(Buffer& b) {
  const auto item = static_cast<std::size_t>(size_bytes(b.tensor().dtype()));
  for (std::int64_t i = 0; i < b.numel(); ++i) {
    auto* p = static_cast<unsigned char*>(b.element(i));
    for (std::size_t k = 0; k < item; ++k) p[k] = static_cast<unsigned char>(uniform_int(0, 255));
  }
}

class ConcatMla : public OnTarget {};

TEST_P(ConcatMla, EveryShapeTypeAndStride) {
  std::vector<DType> types = float_types();
  for (const DType t : {kInt8, kUInt8, kInt32, kFloat8E4M3FN, kFloat8E5M2})
    if (lacks_dtype(device(), t).empty()) types.push_back(t);
  for (const DType dtype : types)
    for (const auto& [heads, n, r] : {std::array<std::int64_t, 3>{128, 128, 64},
                                      {16, 128, 64},
                                      {1, 512, 64},
                                      {3, 7, 5},
                                      {2, 1, 1},
                                      {5, 0, 9},
                                      {4, 33, 0}}) {
      const std::int64_t tokens = heads == 128 ? 2 : 3, gap = uniform_int(0, 3);
      Buffer k(dtype, {tokens, heads, n + r}, gap, {heads * (n + r + gap) + 1, n + r + gap, 1}),
          nope(dtype, {tokens, heads, n}, 1, {heads * (n + 2 * gap), n + 2 * gap, 1}),
          rope(dtype, {tokens, 1, r}, gap, {r + gap, r, 1}),
          every(dtype, {tokens, heads, r}, 0, {heads * r + gap, r, 1});
      for (Buffer* b : {&nope, &rope, &every}) random_bits(*b);
      const auto bytes = [item = size_bytes(dtype)](std::int64_t v) {
        return static_cast<std::size_t>(v * item);
      };
      const auto rows = static_cast<std::size_t>(tokens * heads);
      k.poison();
      concat_mla_k(k, nope, rope);
      EXPECT_EQ(k.bytes(), reference::concat(nope.bytes(), bytes(n), rope.bytes(), bytes(r), rows,
                                             static_cast<std::size_t>(heads)))
          << heads << " heads, " << n << " and " << r << " " << to_string(dtype);
      k.expect_guards_intact("k");
      k.poison();
      concat_mla_absorb_q(k, nope, every);
      EXPECT_EQ(k.bytes(), reference::concat(nope.bytes(), bytes(n), every.bytes(), bytes(r), rows, 1))
          << heads << " heads, " << n << " and " << r << " " << to_string(dtype);
      k.expect_guards_intact("out");
    }
}

TEST_P(ConcatMla, Empty) {
  Buffer k(kFloat32, {0, 4, 8}), nope(kFloat32, {0, 4, 6}), rope(kFloat32, {0, 1, 2}),
      k0(kFloat32, {2, 0, 8}), nope0(kFloat32, {2, 0, 6}), rope0(kFloat32, {2, 1, 2});
  EXPECT_NO_THROW(concat_mla_k(k, nope, rope));
  EXPECT_NO_THROW(concat_mla_k(k0, nope0, rope0));
}

MUSAIC_EVERY_TARGET(ConcatMla);

TEST(ConcatMlaBits, SameEverywhere) {
  Buffer nope(kFloat16, {40, 3, 128}), rope(kFloat16, {40, 1, 64});
  random_bits(nope);
  random_bits(rope);
  expect_same_bytes_everywhere([&] {
    Buffer k(kFloat16, {40, 3, 192});
    concat_mla_k(k, nope, rope);
    return k.bytes();
  });
}

TEST(ConcatMlaErrors, NameTheArgument) {
  use_target(targets()[0]);
  const Buffer k(kFloat32, {2, 4, 8}), nope(kFloat32, {2, 4, 6}), rope(kFloat32, {2, 1, 2}),
      wide(kFloat32, {2, 4, 2}), half(kFloat16, {2, 1, 2}), longs(kInt64, {2, 4, 6}),
      small(kFloat32, {2, 4, 7});
  expect_error([&] { concat_mla_k(k, nope, wide); }, {"concat_mla_k: k_rope: shape [2, 4, 2]"});
  expect_error([&] { concat_mla_k(k, nope, half); }, {"concat_mla_k: k_rope: dtype float16"});
  expect_error([&] { concat_mla_k(small, nope, rope); }, {"concat_mla_k: k: shape [2, 4, 7]"});
  expect_error([&] { concat_mla_k(k, longs, rope); }, {"concat_mla_k: k_nope: dtype int64"});
  expect_error([&] { concat_mla_absorb_q(k, nope, rope); }, {"concat_mla_absorb_q: b: shape [2, 1, 2]"});
}

}  // namespace
}  // namespace musaic::testing
