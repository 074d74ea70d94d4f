#include "cli/check/check.h"

#include "ops/token_bitmask/reference.h"

namespace musaic::checks {

std::vector<Case> token_bitmask_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t vocab : {1, 33, 1000}) {
      const std::int64_t words = vocab / 32;  // the last tokens have none
      cases.push_back({"apply_token_bitmask_inplace", "3x" + std::to_string(vocab), dtype, Tier::kExact, "0",
                       [=](Call& call) {
                         const int logits = call.updated(dtype, {3, vocab});
                         const int mask = call.input(kInt32, {3, words}, [&](std::int64_t) {
                           return static_cast<double>(call.uniform_int(-2147483647, 2147483647));
                         });
                         call.no_tensor();
                         Expected e{logits, {}, {}};
                         const std::vector<double> bits = call.values(mask);
                         const auto rows = call.rows(logits, vocab);
                         for (std::size_t r = 0; r < rows.size(); ++r) {
                           std::vector<std::uint32_t> row;
                           for (std::size_t w = 0; w < static_cast<std::size_t>(words); ++w)
                             row.push_back(static_cast<std::uint32_t>(
                                 static_cast<std::int64_t>(bits[r * static_cast<std::size_t>(words) + w])));
                           for (const double v : reference::apply_token_bitmask(rows[r], row))
                             e.values.push_back(v);
                         }
                         e.tolerance = no_tolerance(e.values);
                         return std::vector<Expected>{e};
                       }});
    }
  return cases;
}

}  // namespace musaic::checks
