#include <algorithm>
#include <cstring>

#include "ops/moe_align/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

using Integers = std::vector<std::int64_t>;

struct Outputs {
  Buffer sorted, experts, total, scratch;
  std::int64_t size, blocks;

  Outputs(std::int64_t n, std::int64_t slots, std::int64_t block, std::int64_t spare = 0)
      : sorted(kInt32, {room(n, slots, block) + spare}, 1),
        experts(kInt32, {room(n, slots, block) / block + spare}, 3),
        total(kInt32, {1}, 1),
        scratch(kUInt8, {moe_align_block_size_workspace_bytes(n, slots)}),
        size(room(n, slots, block) + spare),
        blocks(room(n, slots, block) / block + spare) {
    for (Buffer* b : {&sorted, &experts, &total}) b->poison();
  }
  static std::int64_t room(std::int64_t n, std::int64_t slots, std::int64_t block) {
    return (n + std::min(n, slots) * (block - 1)) / block * block;
  }
  void run(const Tensor& ids, std::int64_t slots, std::int64_t block, bool pad, bool drop) {
    const Workspace workspace{scratch.tensor().data(), scratch.numel()};
    moe_align_block_size(sorted, experts, total, ids, slots, block, pad, drop, {}, workspace);
  }
  void expect_guards() {
    sorted.expect_guards_intact("sorted_token_ids");
    experts.expect_guards_intact("expert_ids");
    total.expect_guards_intact("num_tokens_post_pad");
    scratch.expect_guards_intact("workspace");
  }
};

constexpr double kUntouched = 0x7f7f7f7f;

void expect_right(const Integers& ids, DType dtype, std::int64_t slots, std::int64_t block, bool pad,
                  bool drop) {
  const auto n = static_cast<std::int64_t>(ids.size());
  Buffer in(dtype, {n}, uniform_int(0, 3));
  in.fill([&](std::int64_t i) { return static_cast<double>(ids[static_cast<std::size_t>(i)]); });
  Outputs out(n, slots, block, uniform_int(0, 5));
  out.run(in, slots, block, pad, drop);
  const reference::Aligned expected = reference::moe_align(ids, slots, block, drop);
  ASSERT_EQ(out.total.get(0), static_cast<double>(expected.sorted.size()));
  const std::vector<double> sorted = out.sorted.values(), experts = out.experts.values();
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const bool is_place = i < expected.sorted.size() && expected.sorted[i] >= 0;
    ASSERT_EQ(sorted[i], is_place ? static_cast<double>(expected.sorted[i])
                         : pad    ? static_cast<double>(n)
                                  : kUntouched)
        << "entry " << i << " of " << n << " ids, " << slots << " slots, block " << block;
  }
  for (std::size_t b = 0; b < experts.size(); ++b)
    ASSERT_EQ(experts[b], b < expected.experts.size() ? static_cast<double>(expected.experts[b]) : kUntouched)
        << "block " << b << " of " << n << " ids, " << slots << " slots, block " << block;
  out.expect_guards();
}

class MoeAlign : public OnTarget {};

TEST_P(MoeAlign, EveryIdAndSize) {
  const DType dtypes[] = {kInt32, kInt64, kInt8, kUInt8};
  int turn = 0;
  for (const std::int64_t n : {0, 1, 2, 31, 33, 64, 100, 257, 1000, 4096, 4097, 9000})
    for (const std::int64_t slots : {1, 2, 5, 65, 258, 513, 2001}) {
      if (is_slow() && n * slots > 30000 && !(n == 4097 && slots == 65)) continue;
      const DType dtype = dtypes[turn % 4];
      const std::int64_t block = turn % 3 == 0 ? 16 : turn % 3 == 1 ? 1 : 7;
      const std::int64_t most = std::min<std::int64_t>(slots - 2, dtype == kInt8    ? 127
                                                                  : dtype == kUInt8 ? 255
                                                                                    : slots);
      const std::int64_t least = dtype == kUInt8 ? 0 : -1;
      if (most < least) continue;
      Integers ids;
      for (std::int64_t i = 0; i < n; ++i)
        ids.push_back(turn % 5 == 4 && uniform_int(0, 9) > 0 ? most : uniform_int(least, most));
      expect_right(ids, dtype, slots, block, turn % 2 == 0, turn % 7 == 3);
      EXPECT_NO_THROW(check(device()));
      if (HasFatalFailure()) return;
      ++turn;
    }
}

TEST_P(MoeAlign, C24SentinelAndLastExpert) {
  for (const DType dtype : {kInt32, kInt64})
    for (const Integers& ids : {Integers{0, 3, 3, -1, -1, -1, 3, 0}, Integers{0, 3, 3, 1, 2, 1, 3, 0}})
      for (const bool drop : {false, true}) expect_right(ids, dtype, 5, 4, true, drop);
}

TEST_P(MoeAlign, C25ManyExperts) {
  for (const std::int64_t experts : {257, 384, 1023, 1024, 1025, 2048})
    for (const std::int64_t block : {16, 128}) {
      if (is_slow() && (experts != 1025 || block == 128)) continue;
      Integers ids;
      for (std::int64_t i = 0; i < scaled(8192, 4200); ++i) ids.push_back(7 * i % experts);
      expect_right(ids, kInt32, experts + 1, block, true, false);
    }
}

TEST_P(MoeAlign, BadIdsAreReportedAndLeftOut) {
  for (const std::int64_t n : {9, 5000})
    for (const std::int64_t bad : {std::int64_t{-2}, std::int64_t{4}, std::int64_t{1} << 40,
                                   -(std::int64_t{1} << 33), std::int64_t{0x7fffffff}}) {
      Integers ids;
      for (std::int64_t i = 0; i < n; ++i) ids.push_back(i == 5 ? bad : uniform_int(-1, 3));
      expect_right(ids, kInt64, 5, 4, true, false);
      expect_error(
          [] { check(device()); },
          {"moe_align_block_size: topk_ids: " + std::to_string(bad) + " at 5", "an index inside its table"});
      expect_right(ids, kInt64, 5, 4, false, true);
      if (bad < 0)
        EXPECT_NO_THROW(check(device()));
      else
        expect_error([] { check(device()); }, {"moe_align_block_size: topk_ids: " + std::to_string(bad)});
    }
}

TEST_P(MoeAlign, TwoDimensions) {
  Buffer ids(kInt32, {3, 2});
  const double values[] = {1, 0, 0, 1, -1, 1};
  ids.fill([&](std::int64_t i) { return values[i]; });
  Outputs out(6, 3, 2);
  out.run(ids, 3, 2, true, false);
  EXPECT_EQ(out.total.get(0), 8.0);
  EXPECT_EQ(out.sorted.values(), (std::vector<double>{4, 6, 1, 2, 0, 3, 5, 6}));
}

MUSAIC_EVERY_TARGET(MoeAlign);

TEST(MoeAlignBits, SameEverywhere) {
  for (const std::int64_t n : {700, 6000}) {
    Buffer ids(kInt32, {n});
    ids.fill([](std::int64_t) { return static_cast<double>(uniform_int(-1, 299)); });
    expect_same_bytes_everywhere([&] {
      Outputs out(n, 301, 8);
      out.run(ids, 301, 8, true, false);
      return out.sorted.bytes();
    });
  }
}

TEST(MoeAlignErrors, NameTheArgument) {
  use_target(targets()[0]);
  const Buffer ids(kInt32, {4, 2}), floats(kFloat32, {4, 2}), sorted(kInt32, {32}), small(kInt32, {31}),
      experts(kInt32, {8}), few(kInt32, {7}), total(kInt32, {1}), wide(kInt64, {32}), two(kInt32, {2});
  Buffer scratch(kUInt8, {moe_align_block_size_workspace_bytes(8, 9)});
  const Workspace room{scratch.tensor().data(), scratch.numel()};
  const auto call = [&](const Tensor& s, const Tensor& e, const Tensor& t, const Tensor& i,
                        std::int64_t slots, std::int64_t block, Workspace w) {
    return [=] { moe_align_block_size(s, e, t, i, slots, block, true, false, {}, w); };
  };
  expect_error(call(sorted, experts, total, floats, 9, 4, room),
               {"moe_align_block_size: topk_ids: dtype float32"});
  expect_error(call(wide, experts, total, ids, 9, 4, room),
               {"moe_align_block_size: sorted_token_ids: dtype int64"});
  expect_error(call(small, experts, total, ids, 9, 4, room),
               {"moe_align_block_size: sorted_token_ids: shape [31]", "at least 32"});
  expect_error(call(sorted, few, total, ids, 9, 4, room),
               {"moe_align_block_size: expert_ids: shape [7]", "at least 8"});
  expect_error(call(sorted, experts, two, ids, 9, 4, room),
               {"moe_align_block_size: num_tokens_post_pad: shape [2]"});
  expect_error(call(sorted, experts, total, ids, 0, 4, room), {"moe_align_block_size: num_experts: 0"});
  expect_error(call(sorted, experts, total, ids, 9, 0, room), {"moe_align_block_size: block_size: 0"});
  expect_error(call(sorted, experts, total, ids, 9, std::int64_t{1} << 40, room),
               {"moe_align_block_size: block_size: "});
  expect_error(call(sorted, experts, total, ids, 9, 4, {}), {"moe_align_block_size: workspace: 0 bytes"});
  expect_error(call(sorted, experts, total, sorted, 9, 1, room), {"moe_align_block_size: "});
  expect_error([] { moe_align_block_size_workspace_bytes(-1, 4); }, {"num_ids: -1"});
}

}  // namespace
}  // namespace musaic::testing
