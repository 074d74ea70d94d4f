#include "cli/check/check.h"

#include <algorithm>
#include <cmath>

#include "ops/rotary_embedding/reference.h"

namespace musaic::checks {
namespace {

Expected rotated(const Call& call, int argument, std::int64_t heads, std::int64_t d, int positions, int cache,
                 std::int64_t rotary, bool is_neox, DType dtype) {
  const auto rows = call.rows(argument, d), table = call.rows(cache, rotary);
  const std::vector<double> position = call.values(positions);
  Expected e{argument, {}, {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto token = i / static_cast<std::size_t>(heads);
    const auto& cos_sin = table[static_cast<std::size_t>(position[token])];
    double largest = 0;
    for (const double v : rows[i]) largest = std::max(largest, std::fabs(v));
    for (const double y : reference::rotary_embedding(rows[i], cos_sin, is_neox)) {
      e.values.push_back(y);
      e.tolerance.push_back(
          (std::fabs(y) * (epsilon(dtype) + epsilon(kFloat32)) + 2 * largest * epsilon(kFloat32)) * 1.01 +
          smallest(dtype));
    }
  }
  return e;
}

}  // namespace

std::vector<Case> rotary_embedding_cases() {
  struct Size {
    std::int64_t tokens, heads, kv_heads, d, rotary;
  };
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const Size s :
         {Size{1, 1, 1, 2, 2}, Size{5, 3, 1, 64, 64}, Size{4, 2, 2, 80, 48}, Size{3, 4, 1, 128, 128}})
      for (const bool is_neox : {true, false})
        cases.push_back(
            {"rotary_embedding",
             std::to_string(s.tokens) + "x" + std::to_string(s.heads) + "x" + std::to_string(s.d) +
                 "_rotary" + std::to_string(s.rotary) + (is_neox ? "_halves" : "_pairs"),
             dtype, Tier::kExact, "|y| (u + 2^-24) + 2 max|x| 2^-24", [=](Call& call) {
               constexpr std::int64_t kPositions = 40;
               const int query = call.updated(dtype, {s.tokens, s.heads, s.d}),
                         key = call.updated(dtype, {s.tokens, s.kv_heads, s.d}),
                         positions =
                             call.input(kInt64, {s.tokens},
                                        [&](std::int64_t) {
                                          return static_cast<double>(call.uniform_int(0, kPositions - 1));
                                        }),
                         cache = call.input(kFloat32, {kPositions, s.rotary}, [&](std::int64_t i) {
                           const std::int64_t half = s.rotary / 2, c = i % s.rotary;
                           const double angle =
                               static_cast<double>(i / s.rotary) *
                               std::pow(10000.0, -static_cast<double>(c % half) / static_cast<double>(half));
                           return c < half ? std::cos(angle) : std::sin(angle);
                         });
               call.scalar(s.d);
               call.scalar(is_neox);
               return std::vector<Expected>{
                   rotated(call, query, s.heads, s.d, positions, cache, s.rotary, is_neox, dtype),
                   rotated(call, key, s.kv_heads, s.d, positions, cache, s.rotary, is_neox, dtype)};
             }});
  return cases;
}

}  // namespace musaic::checks
