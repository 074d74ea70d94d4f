#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "ops/speculative_tree/reference.h"
#include "testing/testing.h"

namespace musaic::testing {
namespace {

using reference::Integers;
using reference::Tree;

std::int64_t integer(const Buffer& b, std::int64_t i) { return static_cast<std::int64_t>(b.get(i)); }
Integers integers(const Buffer& b) {
  Integers v;
  for (double x : b.values()) v.push_back(static_cast<std::int64_t>(x));
  return v;
}
void put(Buffer& b, const Integers& v) {
  const bool wide =
      b.tensor().dtype() == kInt64;  // before element(): tensor() takes the memory to the device
  for (std::size_t i = 0; i < v.size(); ++i) {
    void* p = b.element(static_cast<std::int64_t>(i));
    const auto narrow = static_cast<std::int32_t>(v[i]);
    if (wide)
      std::memcpy(p, &v[i], 8);
    else
      std::memcpy(p, &narrow, 4);
  }
}
std::int64_t count(const Integers& v) { return static_cast<std::int64_t>(v.size()); }

DType any_integer() { return uniform_int(0, 1) == 0 ? kInt32 : kInt64; }

Buffer integer_buffer(const Integers& v, std::vector<std::int64_t> shape, DType dtype) {
  Buffer b(dtype, std::move(shape), uniform_int(0, 3));
  put(b, v);
  return b;
}

/// A random tree whose parents come before their children; kinds: any, a chain, a star.
Tree random_tree(std::int64_t nodes, int kind) {
  Tree t{{-1}};
  for (std::int64_t i = 1; i < nodes; ++i)
    t.parent.push_back(kind == 1   ? i - 1
                       : kind == 2 ? 0
                                   : uniform_int(std::max<std::int64_t>(0, i - 9), i - 1));
  return t;
}

/// Candidate numbers that stand for a tree: node i is number i - 1, or its number in a wider level; parents [q] names the parent of
/// candidates q * topk ... q * topk + topk - 1.
struct Draft {
  Integers parents, selected;
  std::int64_t topk, depth;
};
Draft draft_of(const Tree& t, std::int64_t topk) {
  // Every expanded parent has its own q; the root has q = 0. A node with more than topk children cannot be told.
  Draft d{{}, {}, topk, 0};
  Integers q_of(t.parent.size(), -1), used(t.parent.size(), 0);
  std::int64_t next = 1;
  q_of[0] = 0;
  std::vector<std::int64_t> owner = {0};
  for (std::int64_t i = 1; i < t.size(); ++i) {
    const auto p = static_cast<std::size_t>(t.parent_of(i));
    if (q_of[p] < 0) {
      q_of[p] = next++;
      owner.push_back(static_cast<std::int64_t>(p));
    }
    d.selected.push_back(q_of[p] * topk + used[p]++);
  }
  d.depth = next + 1;  // room for topk * (depth - 1) + 1 parents
  d.parents.assign(static_cast<std::size_t>(topk * (d.depth - 1) + 1), -1);
  for (std::size_t q = 1; q < owner.size(); ++q)
    d.parents[q] = d.selected[static_cast<std::size_t>(owner[q]) - 1];
  return d;
}

struct Built {
  Buffer mask, positions, index, next, sibling;

  Built(std::int64_t b, std::int64_t d, std::int64_t mask_bytes, DType dtype)
      : mask(mask_bytes % 2 == 0 ? kBool : kUInt8, {mask_bytes}),
        positions(dtype, {b * d}),
        index(dtype, {b, d}, 1),
        next(any_integer(), {b, d}),
        sibling(any_integer(), {b, d}) {}
  void expect_guards() {
    mask.expect_guards_intact("tree_mask");
    positions.expect_guards_intact("positions");
    index.expect_guards_intact("retrive_index");
    next.expect_guards_intact("retrive_next_token");
    sibling.expect_guards_intact("retrive_next_sibling");
  }
};

void expect_links(const std::vector<Tree>& trees, const Integers& lengths, Built& out) {
  const std::int64_t d = trees[0].size();
  for (std::size_t b = 0; b < trees.size(); ++b)
    for (std::int64_t i = 0; i < d; ++i) {
      const std::int64_t at = static_cast<std::int64_t>(b) * d + i;
      ASSERT_EQ(integer(out.index, at), at);
      ASSERT_EQ(integer(out.next, at), trees[b].first_child(i)) << "node " << i << " of " << d;
      ASSERT_EQ(integer(out.sibling, at), trees[b].sibling(i)) << "node " << i << " of " << d;
      ASSERT_EQ(integer(out.positions, at), lengths[b] + trees[b].depth(i)) << "node " << i << " of " << d;
    }
}

class SpeculativeTree : public OnTarget {};

TEST_P(SpeculativeTree, BuildsEveryTreeInEveryMode) {
  for (std::int64_t d : {1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 129, 200})
    for (int mode = 0; mode < 3; ++mode) {
      if ((mode == 2 && d > 32) || (is_slow() && d > 129)) continue;
      const std::int64_t bs = d > 100 ? 1 : uniform_int(1, 3);
      std::vector<Tree> trees;
      Integers parents, selected, lengths;
      std::vector<Draft> drafts;
      std::int64_t depth = 2, prefix = 0;
      for (std::int64_t b = 0; b < bs; ++b) {
        trees.push_back(random_tree(d, static_cast<int>((b + d) % 3)));
        drafts.push_back(draft_of(trees.back(), d));
        depth = std::max(depth, drafts.back().depth);
        lengths.push_back(uniform_int(0, 20));
        prefix += lengths.back();
      }
      for (Draft& t : drafts) {
        t.parents.resize(static_cast<std::size_t>(d * (depth - 1) + 1), -1);
        parents.insert(parents.end(), t.parents.begin(), t.parents.end());
        selected.insert(selected.end(), t.selected.begin(), t.selected.end());
      }
      const std::int64_t row = mode == 0 ? 0 : mode == 1 ? d : d <= 8 ? 1 : d <= 16 ? 2 : 4;
      Built out(bs, d, mode == 0 ? d * prefix + bs * d * d : bs * d * row, any_integer());
      const Integers old(static_cast<std::size_t>(out.mask.numel()), mode == 0 ? 1 : 0);
      for (std::int64_t i = 0; i < out.mask.numel(); ++i)
        *static_cast<unsigned char*>(out.mask.element(i)) = mode == 0;
      build_tree_kernel_efficient(integer_buffer(parents, {bs, d * (depth - 1) + 1}, any_integer()),
                                  integer_buffer(selected, {bs, d - 1}, any_integer()),
                                  integer_buffer(lengths, {bs}, any_integer()), out.mask, out.positions,
                                  out.index, out.next, out.sibling, d, depth, d, mode);
      EXPECT_NO_THROW(check(device()));
      expect_links(trees, lengths, out);
      const std::vector<unsigned char> mask = out.mask.bytes();
      std::vector<unsigned char> expected;
      for (std::int64_t b = 0; b < bs; ++b)
        for (std::int64_t i = 0; i < d; ++i) {
          const Tree& t = trees[static_cast<std::size_t>(b)];
          if (mode == 0)
            expected.insert(expected.end(), static_cast<std::size_t>(lengths[static_cast<std::size_t>(b)]),
                            1);
          if (mode < 2) {
            for (std::int64_t j = 0; j < d; ++j) expected.push_back(t.is_ancestor(j, i));
          } else {
            std::uint32_t bits = 0;
            for (std::int64_t j = 0; j < d; ++j) bits |= std::uint32_t{t.is_ancestor(j, i)} << j;
            for (std::int64_t k = 0; k < row; ++k)
              expected.push_back(static_cast<unsigned char>(bits >> (8 * k)));
          }
        }
      EXPECT_EQ(mask, expected) << d << " nodes, mode " << mode;
      out.expect_guards();
      if (::testing::Test::HasFatalFailure()) return;
    }
}

// sgl-project/sglang#36201: a missing parent was searched in the next request's row, and a circle never ended.
TEST_P(SpeculativeTree, MalformedTreesStayAlone) {
  const struct {
    Integers parents, selected;
  } good{{-1, 0, 1, 2, 3}, {0, 1, 2}}, missing{{-1, 0, 1, 2, 3}, {1, 2, 4}},
      circle{{-1, 2, 1, 2, 3}, {0, 1, 2}}, outside{{-1, 0, 1, 2, 3}, {0, std::int64_t{1} << 40, -7}};
  for (int order = 0; order < 2; ++order)
    for (const auto& bad : {missing, circle, outside}) {
      const auto& first = order == 0 ? bad : good;
      const auto& second = order == 0 ? good : bad;
      Integers parents = first.parents, selected = first.selected;
      parents.insert(parents.end(), second.parents.begin(), second.parents.end());
      selected.insert(selected.end(), second.selected.begin(), second.selected.end());
      Built out(2, 4, 32, kInt64);
      build_tree_kernel_efficient(integer_buffer(parents, {2, 5}, kInt64),
                                  integer_buffer(selected, {2, 3}, kInt64),
                                  integer_buffer({5, 5}, {2}, kInt64), out.mask, out.positions, out.index,
                                  out.next, out.sibling, 2, 3, 4, 1);
      expect_error([] { check(device()); }, {"build_tree_kernel_efficient: selected_index: "});
      const std::int64_t g = order == 0 ? 4 : 0, m = 4 - g;
      const auto part = [](const Integers& v, std::int64_t at) {
        return Integers(v.begin() + at, v.begin() + at + 4);
      };
      EXPECT_EQ(part(integers(out.next), g), (Integers{1, 3, -1, -1}));
      EXPECT_EQ(part(integers(out.sibling), g), (Integers{-1, 2, -1, -1}));
      EXPECT_EQ(part(integers(out.positions), g), (Integers{5, 6, 6, 7}));
      const auto rows = [&](std::int64_t at) {
        const std::vector<unsigned char> b = out.mask.bytes();
        return std::vector<unsigned char>(b.begin() + 4 * at, b.begin() + 4 * at + 16);
      };
      EXPECT_EQ(rows(g), (std::vector<unsigned char>{1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1}));
      if (bad.selected == missing.selected) {
        EXPECT_EQ(part(integers(out.next), m), (Integers{1, 3, -1, -1}));
        EXPECT_EQ(part(integers(out.sibling), m), (Integers{-1, -1, -1, -1}));
        EXPECT_EQ(rows(m), (std::vector<unsigned char>{1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1}));
        EXPECT_EQ(part(integers(out.positions), m)[3], 7);
      }
      if (bad.parents == circle.parents && bad.selected == circle.selected) {
        EXPECT_EQ(part(integers(out.next), m), (Integers{1, -1, -1, -1}));
        const std::vector<unsigned char> r = rows(m);
        EXPECT_EQ(std::vector<unsigned char>(r.begin() + 12, r.end()),
                  (std::vector<unsigned char>{1, 0, 0, 1}));
      }
      out.expect_guards();
    }
}

TEST_P(SpeculativeTree, LengthsThatDoNotFitWriteNoMask) {
  for (std::int64_t bad : {std::int64_t{-1}, std::int64_t{7}, std::numeric_limits<std::int64_t>::max()}) {
    Built out(2, 2, 2 * (3 + 2) + 2 * (3 + 2), kInt64);
    for (std::int64_t i = 0; i < out.mask.numel(); ++i) *static_cast<unsigned char*>(out.mask.element(i)) = 1;
    build_tree_kernel_efficient(integer_buffer({-1, -1, -1, -1}, {2, 2}, kInt64),
                                integer_buffer({0, 0}, {2, 1}, kInt64), integer_buffer({3, bad}, {2}, kInt64),
                                out.mask, out.positions, out.index, out.next, out.sibling, 1, 2, 2, 0);
    expect_error([] { check(device()); },
                 {"build_tree_kernel_efficient: verified_seq_len: " + std::to_string(bad) + " at 1"});
    std::vector<unsigned char> expected(20, 1);
    expected[4] = 0;  // the first request's root does not see its child
    EXPECT_EQ(out.mask.bytes(), expected);
    out.expect_guards();
  }
}

TEST_P(SpeculativeTree, ReconstructsFromMasks) {
  for (std::int64_t d : {1, 2, 4, 13, 64, 131}) {
    const std::int64_t bs = d > 100 ? 1 : 3;
    std::vector<Tree> trees;
    Integers lengths;
    Built out(bs, d, bs * d * d, any_integer());
    for (std::int64_t b = 0; b < bs; ++b) {
      trees.push_back(random_tree(d, static_cast<int>(b + d) % 3));
      lengths.push_back(uniform_int(0, 1000));
      for (std::int64_t i = 0; i < d * d; ++i)
        *static_cast<unsigned char*>(out.mask.element(b * d * d + i)) =
            trees.back().is_ancestor(i % d, i / d);
    }
    reconstruct_indices_from_tree_mask(out.mask, integer_buffer(lengths, {bs}, any_integer()), out.positions,
                                       out.index, out.next, out.sibling, bs, d);
    expect_links(trees, lengths, out);
    out.expect_guards();
  }
  Built out(1, 4, 16, kInt64);
  const unsigned char mask[] = {1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 1};
  for (std::int64_t i = 0; i < 16; ++i) *static_cast<unsigned char*>(out.mask.element(i)) = mask[i];
  reconstruct_indices_from_tree_mask(out.mask, integer_buffer({12}, {1}, kInt64), out.positions, out.index,
                                     out.next, out.sibling, 1, 4);
  EXPECT_EQ(integers(out.next), (Integers{1, -1, 3, -1}));
  EXPECT_EQ(integers(out.sibling), (Integers{-1, 2, -1, -1}));
  EXPECT_EQ(integers(out.positions), (Integers{12, 13, 13, 14}));
}

/// The two trees of the engine's own test.
struct TwoTrees {
  Integers candidates = {0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12};
  Integers index = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  Integers next = {1, 2, -1, 4, 5, -1, 4, 2, 3, -1, 5, -1};
  Integers sibling = {-1, 3, -1, -1, -1, -1, -1, -1, -1, -1, 1, -1};
  Integers target = {3, 18, 18, 4, 5, 18, 11, 18, 18, 18, 12, 18};
};

struct Outputs {
  Buffer predicts, accepted, count;
  Outputs(std::int64_t b, std::int64_t d, std::int64_t s, DType dtype)
      : predicts(dtype, {b * d}), accepted(dtype, {b, s}), count(dtype, {b}) {
    put(predicts, Integers(static_cast<std::size_t>(b * d), -1));
    put(accepted, Integers(static_cast<std::size_t>(b * s), -1));
    put(count, Integers(static_cast<std::size_t>(b), 0));
  }
  void expect_guards() {
    predicts.expect_guards_intact("predicts");
    accepted.expect_guards_intact("accept_index");
    count.expect_guards_intact("accept_token_num");
  }
};

TEST_P(SpeculativeTree, GreedyFollowsTheTarget) {
  const TwoTrees t;
  for (DType dtype : {kInt32, kInt64})
    for (DType links : {kInt32, kInt64}) {
      Outputs out(2, 6, 4, dtype);
      verify_tree_greedy(out.predicts, out.accepted, out.count, integer_buffer(t.candidates, {2, 6}, links),
                         integer_buffer(t.index, {2, 6}, links), integer_buffer(t.next, {2, 6}, links),
                         integer_buffer(t.sibling, {2, 6}, links), integer_buffer(t.target, {2, 6}, links));
      EXPECT_EQ(integers(out.predicts), (Integers{3, -1, -1, 4, 5, 18, 11, -1, -1, -1, 12, 18}));
      EXPECT_EQ(integers(out.accepted), (Integers{0, 3, 4, 5, 6, 10, 11, -1}));
      EXPECT_EQ(integers(out.count), (Integers{3, 2}));
      out.expect_guards();
    }
}

TEST_P(SpeculativeTree, GreedyOverRandomTrees) {
  for (int round = 0; round < scaled(40, 12); ++round) {
    const std::int64_t bs = uniform_int(1, 200) / (round + 1) + 1, d = uniform_int(1, 24),
                       s = uniform_int(1, 8);
    Integers candidates, index, next, sibling, target;
    Integers predicts(static_cast<std::size_t>(bs * d), -1), accepted(static_cast<std::size_t>(bs * s), -1),
        counts;
    for (std::int64_t b = 0; b < bs; ++b) {
      const Tree t = random_tree(d, round % 3);
      for (std::int64_t i = 0; i < d; ++i) {
        candidates.push_back(uniform_int(-1, 2));
        index.push_back(b * d + i);
        next.push_back(t.first_child(i));
        sibling.push_back(t.sibling(i));
        target.push_back(uniform_int(0, 2));
      }
      std::int64_t node = 0, n = 0;
      accepted[static_cast<std::size_t>(b * s)] = b * d;
      for (bool found = true; found && n < s - 1;) {
        found = false;
        for (std::int64_t c : t.children(node))
          if (candidates[static_cast<std::size_t>(b * d + c)] ==
              target[static_cast<std::size_t>(b * d + node)]) {
            predicts[static_cast<std::size_t>(b * d + node)] =
                candidates[static_cast<std::size_t>(b * d + c)];
            accepted[static_cast<std::size_t>(b * s + ++n)] = b * d + c;
            node = c;
            found = true;
            break;
          }
      }
      predicts[static_cast<std::size_t>(b * d + node)] = target[static_cast<std::size_t>(b * d + node)];
      counts.push_back(n);
    }
    Outputs out(bs, d, s, any_integer());
    verify_tree_greedy(
        out.predicts, out.accepted, out.count, integer_buffer(candidates, {bs, d}, any_integer()),
        integer_buffer(index, {bs, d}, any_integer()), integer_buffer(next, {bs, d}, any_integer()),
        integer_buffer(sibling, {bs, d}, any_integer()), integer_buffer(target, {bs, d}, any_integer()));
    EXPECT_EQ(integers(out.predicts), predicts);
    EXPECT_EQ(integers(out.accepted), accepted);
    EXPECT_EQ(integers(out.count), counts);
  }
}

struct Sampled {
  Buffer coins, last, target;
  Sampled(std::int64_t b, std::int64_t d, std::int64_t v, DType dtype)
      : coins(kFloat32, {b, d}), last(kFloat32, {b}), target(dtype, {b, d, v}, uniform_int(0, 3)) {
    coins.fill([](std::int64_t) { return uniform(0, 0.999999); });
    last.fill([](std::int64_t) { return uniform(0, 0.999999); });
  }
};

TEST_P(SpeculativeTree, SamplingWithBothThresholds) {
  const TwoTrees t;
  for (DType dtype : float_types())
    for (double threshold : {1.0, 0.0}) {
      Outputs out(2, 6, 4, kInt32);
      Sampled s(2, 6, 20, dtype);
      s.target.fill([&](std::int64_t i) { return t.target[static_cast<std::size_t>(i / 20)] == i % 20; });
      Buffer draft(dtype, {2, 6, 20});
      draft.fill([](std::int64_t) { return 0.0; });
      const std::vector<unsigned char> before = s.target.bytes(), draft_before = draft.bytes();
      tree_speculative_sampling_target_only(
          out.predicts, out.accepted, out.count, integer_buffer(t.candidates, {2, 6}, kInt64),
          integer_buffer(t.index, {2, 6}, kInt64), integer_buffer(t.next, {2, 6}, kInt64),
          integer_buffer(t.sibling, {2, 6}, kInt64), s.coins, s.last, s.target, draft, threshold, threshold);
      if (threshold == 1.0) {
        EXPECT_EQ(integers(out.predicts), (Integers{3, -1, -1, 4, 5, 18, 11, -1, -1, -1, 12, 18}));
        EXPECT_EQ(integers(out.accepted), (Integers{0, 3, 4, 5, 6, 10, 11, -1}));
        EXPECT_EQ(integers(out.count), (Integers{3, 2}));
      } else {
        EXPECT_EQ(integers(out.predicts), (Integers{1, 2, 18, -1, -1, -1, 11, -1, -1, -1, 12, 18}));
        EXPECT_EQ(integers(out.accepted), (Integers{0, 1, 2, -1, 6, 10, 11, -1}));
        EXPECT_EQ(integers(out.count), (Integers{2, 2}));
      }
      EXPECT_EQ(s.target.bytes(), before);
      EXPECT_EQ(draft.bytes(), draft_before);
      out.expect_guards();
    }
}

TEST_P(SpeculativeTree, SamplingAgreesWithFloat64) {
  std::int64_t checked = 0, all = 0;
  for (int round = 0; round < scaled(24, 8); ++round) {
    const std::int64_t bs = 3, d = uniform_int(1, 12), s = uniform_int(1, 5);
    const std::int64_t sizes[] = {1, 2, 31, 33, 500, 1025}, v = sizes[round % 6];
    const DType dtype = float_types()[static_cast<std::size_t>(round) % float_types().size()];
    const double single = round % 4 == 3 ? 0.3 : 1.0, acc = round % 3 == 2 ? 0.5 : 1.0;
    const bool with_draft = round % 2 == 0, mark = with_draft && round % 4 == 0;
    Sampled in(bs, d, v, dtype);
    Buffer draft(dtype, {bs, d, v});
    for (std::int64_t r = 0; r < bs * d; ++r) {
      double sum = 0;
      std::vector<double> e;
      for (std::int64_t i = 0; i < v; ++i) sum += e.emplace_back(std::exp(2 * normal()));
      for (std::int64_t i = 0; i < v; ++i) {
        in.target.set(r * v + i, e[static_cast<std::size_t>(i)] / sum);
        draft.set(r * v + i, uniform_int(0, 3) == 0 ? uniform(0, 2.0 / static_cast<double>(v)) : 0.0);
      }
    }
    std::vector<Tree> trees;
    Integers candidates, index, next, sibling;
    for (std::int64_t b = 0; b < bs; ++b) {
      trees.push_back(random_tree(d, round % 3));
      Integers tokens(static_cast<std::size_t>(v));
      std::iota(tokens.begin(), tokens.end(), 0);
      tokens.push_back(-1);
      tokens.push_back(v);
      std::shuffle(tokens.begin(), tokens.end(), rng());
      for (std::int64_t i = 0; i < d; ++i) {
        candidates.push_back(tokens[static_cast<std::size_t>(i) % tokens.size()]);
        index.push_back(b * d + i);
        next.push_back(trees.back().first_child(i));
        sibling.push_back(trees.back().sibling(i));
      }
    }
    const std::vector<double> p = in.target.values(), q = draft.values();
    Outputs out(bs, d, s, any_integer());
    tree_speculative_sampling_target_only(
        out.predicts, out.accepted, out.count, integer_buffer(candidates, {bs, d}, any_integer()),
        integer_buffer(index, {bs, d}, any_integer()), integer_buffer(next, {bs, d}, any_integer()),
        integer_buffer(sibling, {bs, d}, any_integer()), in.coins, in.last, in.target,
        with_draft ? draft.tensor() : Tensor(), single, acc, true, mark);
    EXPECT_NO_THROW(check(device()));
    EXPECT_EQ(in.target.values(), p);
    if (!mark) {
      EXPECT_EQ(draft.values(), q);
    }
    for (std::int64_t b = 0; b < bs; ++b) {
      std::vector<std::vector<double>> target, drafts;
      std::vector<double> coins;
      for (std::int64_t i = 0; i < d; ++i) {
        const auto at = (b * d + i) * v;
        target.emplace_back(p.begin() + at, p.begin() + at + v);
        if (with_draft) drafts.emplace_back(q.begin() + at, q.begin() + at + v);
        coins.push_back(in.coins.get(b * d + i));
      }
      const reference::Verified e =
          reference::verify(trees[static_cast<std::size_t>(b)],
                            Integers(candidates.begin() + b * d, candidates.begin() + (b + 1) * d), coins,
                            in.last.get(b), target, drafts, single, acc, s - 1);
      ++all;
      if (e.margin < 1e-6) continue;
      ++checked;
      ASSERT_EQ(integer(out.count, b), count(e.path) - 1);
      for (std::size_t i = 0; i < e.path.size(); ++i) {
        ASSERT_EQ(integer(out.accepted, b * s + static_cast<std::int64_t>(i)), b * d + e.path[i]);
        ASSERT_EQ(integer(out.predicts, b * d + e.path[i]), e.tokens[i])
            << "vocabulary " << v << " dtype " << to_string(dtype);
      }
    }
    out.expect_guards();
  }
  EXPECT_GT(2 * checked, all) << "too few decisions were clear of rounding";
}

// sgl-project/sglang#35771: a coin of exactly 0 accepted a token of probability 0.
TEST_P(SpeculativeTree, WhatHasNoProbabilityIsNeverAccepted) {
  for (float coin : {0.0f, 1.0f - 0x1p-24f, 0.5f})
    for (double threshold : {1.0, 0.5}) {
      Outputs out(1, 3, 3, kInt32);
      Buffer coins(kFloat32, {1, 3}), last(kFloat32, {1}), target(kFloat32, {1, 3, 4});
      coins.fill([&](std::int64_t) { return coin; });
      last.fill([](std::int64_t) { return 0.5; });
      target.fill([](std::int64_t i) { return i % 4 == 1; });
      tree_speculative_sampling_target_only(
          out.predicts, out.accepted, out.count, integer_buffer({9, 0, 2}, {1, 3}, kInt64),
          integer_buffer({0, 1, 2}, {1, 3}, kInt64), integer_buffer({1, -1, -1}, {1, 3}, kInt64),
          integer_buffer({-1, 2, -1}, {1, 3}, kInt64), coins, last, target, {}, threshold, threshold);
      EXPECT_EQ(integer(out.count, 0), 0);
      EXPECT_EQ(integer(out.predicts, 0), 1);
    }
}

// flashinfer-ai/flashinfer#879: padding of -1 was used as an index.
TEST_P(SpeculativeTree, PaddedDraftsEndTheWalk) {
  for (std::int64_t pad : {std::int64_t{-1}, std::int64_t{4}}) {
    const Integers chain = {3, 1, 0, 1, pad, pad};
    Sampled s(1, 6, 4, kFloat32);
    const std::int64_t truth[] = {1, 0, 1, 2, 0, 0};
    s.target.fill([&](std::int64_t i) { return truth[i / 4] == i % 4; });
    const Buffer candidates = integer_buffer(chain, {1, 6}, kInt64),
                 index = integer_buffer({0, 1, 2, 3, 4, 5}, {1, 6}, kInt64),
                 next = integer_buffer({1, 2, 3, 4, 5, -1}, {1, 6}, kInt64),
                 sibling = integer_buffer({-1, -1, -1, -1, -1, -1}, {1, 6}, kInt64);
    Outputs sampled(1, 6, 6, kInt32), greedy(1, 6, 6, kInt32);
    tree_speculative_sampling_target_only(sampled.predicts, sampled.accepted, sampled.count, candidates,
                                          index, next, sibling, s.coins, s.last, s.target, {});
    verify_tree_greedy(greedy.predicts, greedy.accepted, greedy.count, candidates, index, next, sibling,
                       integer_buffer({1, 0, 1, 2, 0, 0}, {1, 6}, kInt64));
    for (Outputs* out : {&sampled, &greedy}) {
      EXPECT_EQ(integers(out->predicts), (Integers{1, 0, 1, 2, -1, -1}));
      EXPECT_EQ(integer(out->count, 0), 3);
    }
  }
}

TEST_P(SpeculativeTree, BadLinksEndAndAreReported) {
  const struct {
    Integers index, next, sibling;
    const char* argument;
  } cases[] = {{{0, 1, 2}, {1, 1, -1}, {-1, -1, -1}, "retrive_next_token"},
               {{0, 1, 2}, {1, -1, -1}, {-1, 2, 1}, "retrive_next_sibling"},
               {{0, 1, 2}, {7, -1, -1}, {-1, -1, -1}, "retrive_next_token"},
               {{0, 1, 2}, {1, -1, -1}, {-1, -5, -1}, "retrive_next_sibling"},
               {{std::int64_t{1} << 40, 1, 2}, {1, -1, -1}, {-1, 2, -1}, "retrive_index"},
               {{-1, 1, 2}, {1, -1, -1}, {-1, 2, -1}, "retrive_index"}};
  for (const auto& c : cases) {
    const Buffer candidates = integer_buffer({5, 0, 0}, {1, 3}, kInt64),
                 index = integer_buffer(c.index, {1, 3}, kInt64),
                 next = integer_buffer(c.next, {1, 3}, kInt64),
                 sibling = integer_buffer(c.sibling, {1, 3}, kInt64);
    const bool circle_of_children = c.next[1] == 1;
    Outputs out(1, 3, 9, kInt64);
    verify_tree_greedy(out.predicts, out.accepted, out.count, candidates, index, next, sibling,
                       integer_buffer(Integers(3, circle_of_children ? 0 : 1), {1, 3}, kInt64));
    expect_error([] { check(device()); }, {std::string("verify_tree_greedy: ") + c.argument + ": "});
    out.expect_guards();
    Sampled s(1, 3, 4, kFloat32);
    s.target.fill([&](std::int64_t i) { return i % 4 == (circle_of_children ? 0 : 1); });
    Outputs drawn(1, 3, 9, kInt64);
    tree_speculative_sampling_target_only(drawn.predicts, drawn.accepted, drawn.count, candidates, index,
                                          next, sibling, s.coins, s.last, s.target, {});
    expect_error([] { check(device()); },
                 {std::string("tree_speculative_sampling_target_only: ") + c.argument + ": "});
    drawn.expect_guards();
  }
}

TEST_P(SpeculativeTree, RowsWithNothingToDraw) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (double fill : {0.0, nan, inf, -1.0}) {
    Sampled s(1, 1, 5, kFloat32);
    s.target.fill([&](std::int64_t) { return fill; });
    Outputs out(1, 1, 2, kInt32);
    const Buffer zero = integer_buffer({0}, {1, 1}, kInt32), none = integer_buffer({-1}, {1, 1}, kInt32);
    tree_speculative_sampling_target_only(out.predicts, out.accepted, out.count, zero, zero, none, none,
                                          s.coins, s.last, s.target, {});
    EXPECT_EQ(integer(out.predicts, 0), 4);
    s.target.set(2, 1e-30);
    tree_speculative_sampling_target_only(out.predicts, out.accepted, out.count, zero, zero, none, none,
                                          s.coins, s.last, s.target, {});
    EXPECT_EQ(integer(out.predicts, 0), 2);
  }
}

TEST_P(SpeculativeTree, PacksSegments) {
  const std::int64_t bs = 9;
  Integers in = {0}, out = {0};
  for (std::int64_t length : {0, 1, 7, 8, 9, 64, 1000, 3, 0}) {
    in.push_back(in.back() + length);
    out.push_back(out.back() + (length + 7) / 8 + (length == 9 ? 2 : 0));  // one segment has bytes to spare
  }
  for (DType dtype : {kInt32, kInt64}) {
    Buffer x(kUInt8, {in.back()}, 3), y(kUInt8, {out.back() + 1}, 1);
    for (std::int64_t i = 0; i < in.back(); ++i)
      *static_cast<unsigned char*>(x.element(i)) =
          static_cast<unsigned char>(uniform_int(0, 2) == 0 ? 0 : uniform_int(1, 255));
    for (std::int64_t i = 0; i <= out.back(); ++i) *static_cast<unsigned char*>(y.element(i)) = 0xa5;
    std::vector<unsigned char> expected(static_cast<std::size_t>(out.back()) + 1, 0xa5);
    const std::vector<unsigned char> flags = x.bytes();
    for (std::size_t s = 0; s < 9; ++s)
      for (std::int64_t i = 0; i < in[s + 1] - in[s]; ++i) {
        unsigned char& byte = expected[static_cast<std::size_t>(out[s] + i / 8)];
        if (i % 8 == 0) byte = 0;
        if (flags[static_cast<std::size_t>(in[s] + i)] != 0)
          byte = static_cast<unsigned char>(byte | (1 << (i % 8)));
      }
    segment_packbits(x, integer_buffer(in, {bs + 1}, dtype), integer_buffer(out, {bs + 1}, dtype), y, bs);
    EXPECT_NO_THROW(check(device()));
    EXPECT_EQ(y.bytes(), expected);
    y.expect_guards_intact("y");
  }
}

TEST_P(SpeculativeTree, BadSegmentsAreLeftOut) {
  const struct {
    Integers in, out;
    const char* argument;
  } cases[] = {{{0, 8, 4, 12}, {0, 1, 2, 3}, "input_indptr"},
               {{0, 8, 99, 12}, {0, 1, 2, 3}, "input_indptr"},
               {{0, 8, 16, 16}, {0, 1, 9, 3}, "output_indptr"},
               {{0, 8, 17, 17}, {0, 1, 2, 3}, "output_indptr"}};
  for (const auto& c : cases) {
    Buffer x(kBool, {20}), y(kUInt8, {3});
    for (std::int64_t i = 0; i < 20; ++i) *static_cast<unsigned char*>(x.element(i)) = 1;
    for (std::int64_t i = 0; i < 3; ++i) *static_cast<unsigned char*>(y.element(i)) = 0x5a;
    segment_packbits(x, integer_buffer(c.in, {4}, kInt64), integer_buffer(c.out, {4}, kInt64), y, 3);
    expect_error([] { check(device()); }, {std::string("segment_packbits: ") + c.argument + ": "});
    EXPECT_EQ(y.bytes()[0], 0xff);
    EXPECT_EQ(y.bytes()[1], 0x5a);
    y.expect_guards_intact("y");
  }
}

TEST_P(SpeculativeTree, Empty) {
  const Buffer none(kInt64, {0}), rows(kInt64, {0, 4}), drafts(kInt64, {0, 3}), parents(kInt64, {0, 5}),
      flags(kBool, {0}), bytes(kUInt8, {0}), zero = integer_buffer({0}, {1}, kInt64);
  Buffer rows2(kInt64, {0, 4}), rows3(kInt64, {0, 4}), none2(kInt64, {0}), coins(kFloat32, {0, 4}),
      last(kFloat32, {0}), probs(kFloat32, {0, 4, 7});
  EXPECT_NO_THROW(
      build_tree_kernel_efficient(parents, drafts, none, flags, none2, rows, rows2, rows3, 2, 3, 4, 1));
  EXPECT_NO_THROW(reconstruct_indices_from_tree_mask(flags, none, none2, rows, rows2, rows3, 0, 4));
  EXPECT_NO_THROW(verify_tree_greedy(none, rows, none2, rows2, rows3, rows3, rows3, rows3));
  EXPECT_NO_THROW(tree_speculative_sampling_target_only(none, rows, none2, rows2, rows3, rows3, rows3, coins,
                                                        last, probs, {}));
  EXPECT_NO_THROW(segment_packbits(flags, zero, zero, bytes, 0));
}

MUSAIC_EVERY_TARGET(SpeculativeTree);

/// 120,000 draws of one tree of two levels on the CPU: the first token, and the second where the first was a draft, have
/// the target's distribution.
TEST(SpeculativeTreeDistribution, ChiSquared) {
  use_target(targets()[0]);
  constexpr std::int64_t kDraws = 120000, kVocab = 6, kNodes = 4;
  const double root[] = {0.05, 0.4, 0.1, 0.25, 0.15, 0.05}, child[] = {0.3, 0.05, 0.05, 0.2, 0.1, 0.3};
  const Integers tokens = {9, 1, 3, 0};  // children 1 and 3 of the root, child 0 of the first
  Buffer coins(kFloat32, {kDraws, kNodes}), last(kFloat32, {kDraws}),
      target(kFloat32, {kDraws, kNodes, kVocab});
  std::uniform_int_distribution<std::uint32_t> bits(0, (1u << 24) - 1);
  const auto coin = [&](std::int64_t) { return static_cast<double>(bits(rng())) * 0x1p-24; };
  coins.fill(coin);
  last.fill(coin);
  target.fill(
      [&](std::int64_t i) { return i / kVocab % kNodes == 0 ? root[i % kVocab] : child[i % kVocab]; });
  Integers candidates, index, next, sibling;
  for (std::int64_t b = 0; b < kDraws; ++b)
    for (std::int64_t i = 0; i < kNodes; ++i) {
      candidates.push_back(tokens[static_cast<std::size_t>(i)]);
      index.push_back(b * kNodes + i);
      next.push_back(i == 0 ? 1 : i == 1 ? 3 : -1);
      sibling.push_back(i == 1 ? 2 : -1);
    }
  Outputs out(kDraws, kNodes, 3, kInt32);
  tree_speculative_sampling_target_only(
      out.predicts, out.accepted, out.count, integer_buffer(candidates, {kDraws, kNodes}, kInt32),
      integer_buffer(index, {kDraws, kNodes}, kInt32), integer_buffer(next, {kDraws, kNodes}, kInt32),
      integer_buffer(sibling, {kDraws, kNodes}, kInt32), coins, last, target, {});
  std::array<double, kVocab> first{}, second{};
  double seconds = 0;
  for (std::int64_t b = 0; b < kDraws; ++b) {
    ++first[static_cast<std::size_t>(integer(out.predicts, b * kNodes))];
    if (integer(out.count, b) == 0) continue;
    ++second[static_cast<std::size_t>(integer(out.predicts, integer(out.accepted, b * 3 + 1)))];
    ++seconds;
  }
  const auto chi2 = [](const std::array<double, kVocab>& seen, const std::vector<double>& share, double n) {
    double x = 0;
    for (std::size_t i = 0; i < share.size(); ++i)
      x += (seen[i] - n * share[i]) * (seen[i] - n * share[i]) / (n * share[i]);
    return x;
  };
  // Five degrees of freedom: 37 is exceeded once in a million runs.
  EXPECT_LT(chi2(first, reference::first_token({root, root + kVocab}), kDraws), 37.0);
  EXPECT_GT(seconds, 0.6 * kDraws);
  EXPECT_LT(chi2(second, reference::first_token({child, child + kVocab}), seconds), 37.0);
}

TEST(SpeculativeTreeBits, SameEverywhere) {
  const std::int64_t bs = 7, d = 300, v = 700, s = 3;
  for (DType dtype : {kFloat32, kFloat16}) {
    Sampled in(bs, d / 10, v, dtype);
    const std::int64_t n = d / 10;
    in.target.fill([&](std::int64_t) { return uniform(0, 2.0 / static_cast<double>(v)); });
    Integers candidates, index, next, sibling;
    for (std::int64_t b = 0; b < bs; ++b) {
      const Tree t = random_tree(n, b % 2 == 0 ? 2 : 0);
      for (std::int64_t i = 0; i < n; ++i) {
        candidates.push_back(uniform_int(-1, v));
        index.push_back(b * n + i);
        next.push_back(t.first_child(i));
        sibling.push_back(t.sibling(i));
      }
    }
    const Buffer c = integer_buffer(candidates, {bs, n}, kInt64), i = integer_buffer(index, {bs, n}, kInt32),
                 f = integer_buffer(next, {bs, n}, kInt64), g = integer_buffer(sibling, {bs, n}, kInt32);
    expect_same_bytes_everywhere([&] {
      Outputs out(bs, n, s, kInt32);
      tree_speculative_sampling_target_only(out.predicts, out.accepted, out.count, c, i, f, g, in.coins,
                                            in.last, in.target, {});
      std::vector<unsigned char> bytes = out.predicts.bytes();
      for (const Buffer* b : {&out.accepted, &out.count}) {
        const std::vector<unsigned char> more = b->bytes();
        bytes.insert(bytes.end(), more.begin(), more.end());
      }
      return bytes;
    });
  }
  // More rejected siblings than a block lists.
  Sampled in(1, d, v, kFloat32);
  in.coins.fill([](std::int64_t) { return 0.9999; });
  in.target.fill([&](std::int64_t i) { return i % v < d ? 1e-9 : 1.0 / static_cast<double>(v); });
  Integers candidates, index, next, sibling;
  for (std::int64_t i = 0; i < d; ++i) {
    candidates.push_back(i);
    index.push_back(i);
    next.push_back(i == 0 ? 1 : -1);
    sibling.push_back(i > 0 && i + 1 < d ? i + 1 : -1);
  }
  const Buffer c = integer_buffer(candidates, {1, d}, kInt64), i = integer_buffer(index, {1, d}, kInt64),
               f = integer_buffer(next, {1, d}, kInt64), g = integer_buffer(sibling, {1, d}, kInt64);
  expect_same_bytes_everywhere([&] {
    Outputs out(1, d, s, kInt32);
    tree_speculative_sampling_target_only(out.predicts, out.accepted, out.count, c, i, f, g, in.coins,
                                          in.last, in.target, {});
    const std::int64_t token = integer(out.predicts, 0);
    EXPECT_TRUE(token == 0 || token >= d) << "a rejected token: " << token;
    return out.predicts.bytes();
  });
}

TEST(SpeculativeTreeErrors, NameTheArgument) {
  use_target(targets()[0]);
  const Buffer rows(kInt64, {2, 4}), rows2(kInt64, {2, 4}), rows3(kInt64, {2, 4}), flat(kInt64, {8}),
      lengths(kInt64, {2}), drafts(kInt64, {2, 3}), parents(kInt64, {2, 5}), mask(kBool, {32}),
      small(kBool, {31}), floats(kFloat32, {2, 4}), last(kFloat32, {2}), probs(kFloat32, {2, 4, 6}),
      half(kFloat16, {2, 4, 6}), wide(kInt64, {2, 5}), flags(kBool, {8}), bytes(kUInt8, {4}),
      ends(kInt64, {3}), accepted(kInt64, {2, 3}), counts(kInt64, {2});
  const auto build = [&](const Tensor& p, const Tensor& m, std::int64_t topk, std::int64_t d,
                         std::int64_t mode) {
    return [=, &drafts, &lengths, &flat, &rows, &rows2, &rows3] {
      build_tree_kernel_efficient(p, drafts, lengths, m, flat, rows, rows2, rows3, topk, 3, d, mode);
    };
  };
  expect_error(build(parents, small, 2, 4, 1),
               {"build_tree_kernel_efficient: tree_mask: 31 elements", "at least 32"});
  expect_error(build(parents, mask, 3, 4, 1),
               {"build_tree_kernel_efficient: parent_list: shape [2, 5]", "=7"});
  expect_error(build(parents, mask, 0, 4, 1), {"build_tree_kernel_efficient: topk: 0"});
  expect_error(build(parents, mask, 2, 4, 3), {"build_tree_kernel_efficient: tree_mask_mode: 3"});
  expect_error(build(parents, mask, 2, 33, 2),
               {"build_tree_kernel_efficient: draft_token_num: 33", "at most 32"});
  expect_error(build(floats, mask, 2, 4, 1), {"build_tree_kernel_efficient: parent_list: dtype float32"});
  expect_error([&] { reconstruct_indices_from_tree_mask(small, lengths, flat, rows, rows2, rows3, 2, 4); },
               {"reconstruct_indices_from_tree_mask: tree_mask: 31 elements"});
  expect_error([&] { verify_tree_greedy(flat, accepted, counts, rows, wide, rows2, rows3, rows); },
               {"verify_tree_greedy: retrive_index: shape [2, 5]", "num_nodes=4"});
  expect_error([&] { verify_tree_greedy(lengths, accepted, counts, rows, rows2, rows2, rows3, rows); },
               {"verify_tree_greedy: predicts: shape [2]", "at least"});
  const auto sample = [&](const Tensor& draft, double single, double acc, bool mark) {
    return [=, &flat, &accepted, &counts, &rows, &rows2, &rows3, &floats, &last, &probs] {
      tree_speculative_sampling_target_only(flat, accepted, counts, rows, rows2, rows3, rows3, floats, last,
                                            probs, draft, single, acc, true, mark);
    };
  };
  expect_error(sample({}, 1.5, 1, false), {"tree_speculative_sampling_target_only: threshold_single: 1.5"});
  expect_error(sample({}, 1, std::nan(""), false),
               {"tree_speculative_sampling_target_only: threshold_acc: "});
  expect_error(sample({}, 1, 1, true), {"tree_speculative_sampling_target_only: draft_probs: no tensor"});
  expect_error(sample(half, 1, 1, false),
               {"tree_speculative_sampling_target_only: draft_probs: dtype float16"});
  expect_error([&] { segment_packbits(flags, ends, ends, bytes, 3); },
               {"segment_packbits: input_indptr: shape [3]"});
  expect_error([&] { segment_packbits(flags, ends, ends, flags, 2); }, {"segment_packbits: y: dtype bool"});
}

}  // namespace
}  // namespace musaic::testing
