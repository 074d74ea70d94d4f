#include "cli/check/check.h"

#include <algorithm>
#include <cmath>

#include "ops/moe_routing/reference.h"

namespace musaic::checks {
namespace {

constexpr std::int64_t kTokens = 5, kTopK = 4;

/// Logits of a row differ by 1/8 at least and are numbers of every dtype.
int logits(Call& call, DType dtype, std::int64_t experts) {
  const std::int64_t shift = call.uniform_int(0, experts - 1);
  return call.input(dtype, {kTokens, experts}, [=](std::int64_t i) {
    return static_cast<double>((i % experts * 37 + i / experts * 11 + shift) % experts - experts / 2) / 8;
  });
}

std::vector<Expected> rows(Call& call, int weights, int ids, int in, std::int64_t experts,
                           const std::function<reference::Routed(const std::vector<double>&)>& route) {
  Expected w{weights, {}, {}}, i{ids, {}, {}};
  for (const auto& row : call.rows(in, experts)) {
    const reference::Routed r = route(row);
    for (std::size_t j = 0; j < r.ids.size(); ++j) {
      i.values.push_back(static_cast<double>(r.ids[j]));
      i.tolerance.push_back(0);
      w.values.push_back(r.weights[j]);
      w.tolerance.push_back(r.weights[j] * 8e-6 + 1e-37);
    }
  }
  return {w, i};
}

std::vector<double> scores(const std::vector<double>& x) {
  std::vector<double> s;
  for (const double v : x) s.push_back(reference::logistic(v));
  return s;
}

}  // namespace

std::vector<Case> moe_routing_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t experts : {7, 64, 160}) {
      const std::string shape = std::to_string(kTokens) + "x" + std::to_string(experts);
      cases.push_back({"topk_softmax", shape, dtype, Tier::kExact, "8e-6 of a weight", [=](Call& call) {
                         const int w = call.output(kFloat32, {kTokens, kTopK}),
                                   i = call.output(kInt32, {kTokens, kTopK}),
                                   in = logits(call, dtype, experts);
                         call.no_tensor();
                         call.scalar(experts == 64);
                         call.scalar(0.0);
                         return rows(call, w, i, in, experts, [=](const std::vector<double>& x) {
                           return reference::choose(x, reference::softmax(x), kTopK, experts == 64);
                         });
                       }});
      if (experts == 160) continue;  // the logistic function of distant logits is one number
      cases.push_back({"topk_sigmoid", shape, dtype, Tier::kExact, "8e-6 of a weight", [=](Call& call) {
                         const int w = call.output(kFloat32, {kTokens, kTopK}),
                                   i = call.output(kInt64, {kTokens, kTopK}),
                                   in = logits(call, dtype, experts);
                         call.no_tensor();
                         call.scalar(true);
                         return rows(call, w, i, in, experts, [](const std::vector<double>& x) {
                           return reference::choose(scores(x), scores(x), kTopK, true);
                         });
                       }});
      cases.push_back(
          {"kimi_k2_moe_fused_gate", shape, dtype, Tier::kExact, "8e-6 of a weight", [=](Call& call) {
             const int w = call.output(kFloat32, {kTokens, kTopK}), i = call.output(kInt32, {kTokens, kTopK}),
                       in = logits(call, dtype, experts);
             call.input(kFloat32, {experts}, [](std::int64_t) { return 0.0; });
             call.scalar(true);
             call.scalar(2.5);
             call.scalar(true);
             return rows(call, w, i, in, experts, [](const std::vector<double>& x) {
               reference::Routed r = reference::choose(scores(x), scores(x), kTopK, true);
               for (double& v : r.weights) v *= 2.5;
               return r;
             });
           }});
    }
  // Scores of float32 alone, since a bias in the storage type would be rounded with them.
  cases.push_back({"moe_fused_gate", "5x64", kFloat32, Tier::kExact, "8e-6 of a weight", [](Call& call) {
                     const int w = call.output(kFloat32, {kTokens, kTopK}),
                               i = call.output(kInt32, {kTokens, kTopK}), in = logits(call, kFloat32, 64);
                     call.input(kFloat32, {64}, [](std::int64_t) { return 0.0; });
                     call.scalar(std::int64_t{8});
                     call.scalar(std::int64_t{3});
                     call.scalar(std::int64_t{1});
                     call.scalar(2.5);
                     call.scalar(false);
                     return rows(call, w, i, in, 64, [](const std::vector<double>& x) {
                       reference::Routed r = reference::choose(scores(x), scores(x), kTopK - 1, true, 8, 3);
                       r.ids.push_back(64);
                       r.weights.push_back(1 / 2.5);
                       return r;
                     });
                   }});
  std::stable_sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.op < b.op; });
  return cases;
}

}  // namespace musaic::checks
