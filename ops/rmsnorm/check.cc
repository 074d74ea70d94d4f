#include "cli/check/check.h"

#include <cmath>

#include "ops/rmsnorm/reference.h"

namespace musaic::checks {

std::vector<Case> rmsnorm_cases() {
  std::vector<Case> cases;
  for (const bool gemma : {false, true})
    for (const DType dtype : kFloatTypes)
      for (const std::int64_t n : {1, 7, 64, 257, 1000, 4096, 8195}) {
        const std::int64_t rows = n > 2048 ? 2 : 5;
        cases.push_back({gemma ? "gemma_rmsnorm" : "rmsnorm", std::to_string(rows) + "x" + std::to_string(n),
                         dtype, Tier::kExact, "|y| (u + (10 + n/512) 2^-24)", [=](Call& call) {
                           const int out = call.output(dtype, {rows, n}),
                                     in = call.normal(dtype, {rows, n}, 3.0),
                                     weight = call.normal(dtype, {n});
                           call.scalar(1e-6);
                           Expected e{out, {}, {}};
                           // The sum's relative error is below (n / 256 + 12) u32 and enters at half its size.
                           const double relative =
                               epsilon(dtype) + (10.0 + static_cast<double>(n) / 512.0) * epsilon(kFloat32);
                           for (const auto& row : call.rows(in, n))
                             for (const double y : reference::rmsnorm(
                                      row, call.values(weight), static_cast<float>(1e-6), gemma ? 1 : 0)) {
                               e.values.push_back(y);
                               e.tolerance.push_back(std::fabs(y) * relative * 1.01 + smallest(dtype));
                             }
                           return std::vector<Expected>{e};
                         }});
      }
  return cases;
}

}  // namespace musaic::checks
