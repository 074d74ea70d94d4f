#include "cli/check/check.h"

#include "ops/sampling/reference.h"

namespace musaic::checks {

namespace {

/// Shares of the kept mass; the divisor is the mass of whole weights, off by V 2^-40 at most.
void add_renorm(std::vector<Case>& cases, const std::string& op, DType dtype, std::int64_t vocab) {
  static constexpr std::int64_t kRows = 4;
  cases.push_back(
      {op, std::to_string(kRows) + "x" + std::to_string(vocab), dtype, Tier::kExact,
       op == "top_k_mask_logits" ? "0" : "p (2 u + V 2^-40) + 2^-40", [=](Call& call) {
         const bool is_mask = op == "top_k_mask_logits", by_mass = op == "top_p_renorm_probs";
         const int out = call.output(dtype, {kRows, vocab});
         const int in = is_mask ? call.normal(dtype, {kRows, vocab}, 3)
                                : call.input(dtype, {kRows, vocab}, [&](std::int64_t) {
                                    return call.uniform(0, 2) / static_cast<double>(vocab);
                                  });
         call.no_tensor();
         reference::Filters filters;
         if (by_mass) {
           filters.top_p = 0.75f;
           call.scalar(0.75);
         } else {
           filters.top_k = 5;
           call.scalar(std::int64_t{5});
         }
         Expected e{out, {}, {}};
         for (const auto& row : call.rows(in, vocab)) {
           std::vector<float> p(row.begin(), row.end());
           if (is_mask) p.assign(row.size(), 1.0f);  // no weights, and no min-p

           std::vector<std::uint64_t> weights(row.size(), 1);
           if (!is_mask)
             weights =
                 reference::weights(p, reference::weight_exponent(*std::max_element(row.begin(), row.end())));
           const auto kept = reference::support(row, p, weights, filters);
           double sum = 0;
           for (std::size_t i = 0; i < row.size(); ++i) sum += kept[i] ? row[i] : 0.0;
           for (std::size_t i = 0; i < row.size(); ++i) {
             const double y = is_mask ? (kept[i] ? row[i] : -HUGE_VAL) : kept[i] ? row[i] / sum : 0.0;
             e.values.push_back(y);
             e.tolerance.push_back(is_mask ? 0.0
                                           : y * (2 * epsilon(dtype) + static_cast<double>(vocab) * 0x1p-40) +
                                                 0x1p-40 + smallest(dtype));
           }
         }
         return std::vector<Expected>{e};
       }});
}

}  // namespace

std::vector<Case> sampling_cases() {
  struct Filter {
    const char* name;
    std::int64_t top_k;
    double top_p, min_p, temperature;
  };
  static constexpr std::int64_t kRows = 5;
  std::vector<Case> cases;
  for (const bool from_logits : {true, false})
    for (const DType dtype : kFloatTypes)
      for (const std::int64_t vocab : {7, 257, 4099})
        for (const Filter f : {Filter{"greedy", 0, 1, 0, 0}, Filter{"all", 0, 1, 0, 1},
                               Filter{"k5_p0.9", 5, 0.9, 0, 0.8}, Filter{"min_p", 0, 1, 0.1, 1}}) {
          if (!from_logits && (dtype != kFloat32 || f.temperature == 0)) continue;
          cases.push_back(
              {from_logits ? "sampling_from_logits" : "sampling_from_probs",
               std::to_string(kRows) + "x" + std::to_string(vocab) + "_" + f.name, dtype, Tier::kExact, "0",
               [=](Call& call) {
                 const int tokens = call.output(kInt32, {kRows});
                 call.no_tensor();
                 const int rows = from_logits ? call.normal(dtype, {kRows, vocab}, 2.5)
                                              : call.input(dtype, {kRows, vocab}, [&](std::int64_t) {
                                                  return call.uniform(0, 2) / static_cast<double>(vocab);
                                                });
                 call.no_tensor();
                 const auto number = [&](std::int64_t) {
                   return static_cast<double>(call.uniform_int(0, 1 << 20));
                 };
                 const int seed = call.input(kInt64, {kRows}, number),
                           offset = call.input(kInt64, {kRows}, number);
                 for (int i = 0; i < (from_logits ? 5 : 4); ++i) call.no_tensor();
                 if (from_logits) call.scalar(f.temperature);
                 call.scalar(f.top_k);
                 call.scalar(f.top_p);
                 call.scalar(f.min_p);
                 call.scalar(false);
                 call.set_workspace(sampling_workspace_bytes(kRows, vocab, call.device()));
                 reference::Filters filters;
                 filters.top_k = f.top_k;
                 filters.top_p = static_cast<float>(f.top_p);
                 filters.min_p = static_cast<float>(f.min_p);
                 Expected e{tokens, {}, {}};
                 const auto values = call.rows(rows, vocab);
                 for (std::size_t r = 0; r < values.size(); ++r) {
                   const auto random =
                       reference::random_numbers(static_cast<std::uint64_t>(call.values(seed)[r]),
                                                 static_cast<std::uint64_t>(call.values(offset)[r]), 0);
                   e.values.push_back(static_cast<double>(
                       from_logits ? reference::sample_logits(values[r], static_cast<float>(f.temperature),
                                                              filters, random)
                                   : reference::sample_probs(values[r], filters, random)));
                 }
                 e.tolerance = no_tolerance(e.values);
                 return std::vector<Expected>{e};
               }});
        }
  for (const char* op : {"top_k_renorm_probs", "top_p_renorm_probs", "top_k_mask_logits"})
    for (const DType dtype : kFloatTypes)
      for (const std::int64_t vocab : {7, 257, 4099}) add_renorm(cases, op, dtype, vocab);
  return cases;
}

}  // namespace musaic::checks
