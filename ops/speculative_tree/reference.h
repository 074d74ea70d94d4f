#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace musaic::reference {

using Integers = std::vector<std::int64_t>;

/// One tree as parents; parent[0] = -1. Everything else follows.
struct Tree {
  Integers parent;

  std::int64_t size() const { return static_cast<std::int64_t>(parent.size()); }
  std::int64_t parent_of(std::int64_t i) const { return parent[static_cast<std::size_t>(i)]; }
  bool is_ancestor(std::int64_t a, std::int64_t i) const {
    for (; i >= 0; i = parent_of(i))
      if (a == i) return true;
    return false;
  }
  std::int64_t depth(std::int64_t i) const { return i == 0 ? 0 : 1 + depth(parent_of(i)); }
  Integers children(std::int64_t i) const {
    Integers c;
    for (std::int64_t j = 0; j < size(); ++j)
      if (parent_of(j) == i) c.push_back(j);
    return c;
  }
  std::int64_t first_child(std::int64_t i) const {
    const Integers c = children(i);
    return c.empty() ? -1 : c[0];
  }
  std::int64_t sibling(std::int64_t i) const {
    if (i == 0) return -1;
    const Integers c = children(parent_of(i));
    const auto at = std::find(c.begin(), c.end(), i) + 1;
    return at == c.end() ? -1 : *at;
  }
};

/// Probability, in float64, that a tree's verification emits each possible first token after the root: by the
/// mathematics it is the target's own distribution of the root's row.
inline std::vector<double> first_token(const std::vector<double>& target) {
  double sum = 0;
  for (double p : target) sum += p;
  std::vector<double> share;
  for (double p : target) share.push_back(p / sum);
  return share;
}

/// The path of a sampled verification over an ordinary tree, in float64; `margin` tells how near the nearest decision
/// was, so that a test can leave out what only exact weights decide.
struct Verified {
  Integers path;    // nodes, the root first
  Integers tokens;  // the token after each of them
  double margin = 1;
};

inline Verified verify(const Tree& tree, const Integers& candidates, const std::vector<double>& coins,
                       double final_coin, const std::vector<std::vector<double>>& target,
                       const std::vector<std::vector<double>>& draft, double threshold_single,
                       double threshold_acc, std::int64_t most) {
  Verified v;
  std::int64_t node = 0;
  v.path.push_back(0);
  Integers rejected;
  const auto near = [&](double a, double b) { v.margin = std::min(v.margin, std::fabs(a - b)); };
  bool found = true;
  while (found && static_cast<std::int64_t>(v.tokens.size()) < most) {
    found = false;
    rejected.clear();
    double sigma = 0;
    const auto row = static_cast<std::size_t>(node);
    for (std::int64_t c : tree.children(node)) {
      const std::int64_t token = candidates[static_cast<std::size_t>(c)];
      if (token < 0 || token >= static_cast<std::int64_t>(target[row].size())) continue;
      const double p = target[row][static_cast<std::size_t>(token)];
      sigma += p;
      near(coins[row] * threshold_acc, sigma);
      if (coins[row] * threshold_acc < sigma || p >= threshold_single) {
        v.tokens.push_back(token);
        v.path.push_back(c);
        node = c;
        found = true;
        rejected.clear();
        break;
      }
      rejected.push_back(token);
    }
  }
  const auto row = static_cast<std::size_t>(node);
  std::vector<double> rest = target[row];
  if (static_cast<std::int64_t>(v.tokens.size()) < most)
    for (std::size_t i = 0; i < rest.size(); ++i)
      rest[i] = std::max(0.0, rest[i] - (draft.empty() ? 0 : draft[row][i]));
  for (std::int64_t t : rejected) rest[static_cast<std::size_t>(t)] = 0;
  double sum = 0, prefix = 0;
  for (double p : rest) sum += p;
  std::int64_t token = static_cast<std::int64_t>(rest.size()) - 1;
  bool open = sum > 0;
  for (std::size_t i = 0; i < rest.size() && open; ++i) {
    prefix += rest[i];
    if (i + 1 < rest.size()) near(final_coin * sum, prefix);
    if (prefix > final_coin * sum) {
      token = static_cast<std::int64_t>(i);
      open = false;
    }
  }
  v.tokens.push_back(token);
  return v;
}

}  // namespace musaic::reference
