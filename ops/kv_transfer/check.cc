#include "cli/check/check.h"

namespace musaic::checks {
namespace {

/// Tokens 5, 0, 3, 7 of a pool of eight go to 1, 6, 2, 0 of another; the second is padding.
constexpr double kFrom[] = {5, -1, 3, 7}, kTo[] = {1, 6, 2, 0};

Case page_first_case(DType dtype, std::int64_t d) {
  return {"transfer_kv_per_layer_mla_pf_lf",
          "8x3x" + std::to_string(d),
          dtype,
          Tier::kExact,
          "0",
          [=](Call& call) {
            const int src = call.normal(dtype, {8, 3, d}), dst = call.updated(dtype, {8, d});
            call.input(kInt64, {4}, [](std::int64_t i) { return kFrom[i]; });
            call.input(kInt64, {4}, [](std::int64_t i) { return kTo[i]; });
            call.scalar(std::int64_t{2});
            call.scalar(d * size_bytes(dtype));
            call.scalar(3 * d * size_bytes(dtype));
            call.scalar(std::int64_t{2});
            call.scalar(std::int64_t{32});
            Expected e{dst, call.values(dst), {}};
            const auto from = call.values(src);
            for (int t : {0, 2, 3})
              for (std::int64_t i = 0; i < d; ++i)
                e.values[static_cast<std::size_t>(static_cast<std::int64_t>(kTo[t]) * d + i)] =
                    from[static_cast<std::size_t>((static_cast<std::int64_t>(kFrom[t]) * 3 + 2) * d + i)];
            e.tolerance = no_tolerance(e.values);
            return std::vector<Expected>{e};
          }};
}

Case layer_case(DType dtype, std::int64_t d) {
  return {"transfer_kv_per_layer", "8x" + std::to_string(d), dtype, Tier::kExact, "0", [=](Call& call) {
            const int src_k = call.normal(dtype, {8, d}), dst_k = call.updated(dtype, {8, d}),
                      src_v = call.normal(dtype, {8, d}), dst_v = call.updated(dtype, {8, d});
            call.input(kInt32, {4}, [](std::int64_t i) { return kFrom[i]; });
            call.input(kInt32, {4}, [](std::int64_t i) { return kTo[i]; });
            call.scalar(d * size_bytes(dtype));
            call.scalar(std::int64_t{2});
            call.scalar(std::int64_t{32});
            std::vector<Expected> all;
            for (const auto& [src, dst] : {std::pair{src_k, dst_k}, std::pair{src_v, dst_v}}) {
              Expected e{dst, call.values(dst), {}};
              const auto from = call.values(src);
              for (int t : {0, 2, 3})
                for (std::int64_t i = 0; i < d; ++i)
                  e.values[static_cast<std::size_t>(static_cast<std::int64_t>(kTo[t]) * d + i)] =
                      from[static_cast<std::size_t>(static_cast<std::int64_t>(kFrom[t]) * d + i)];
              e.tolerance = no_tolerance(e.values);
              all.push_back(e);
            }
            return all;
          }};
}

}  // namespace

std::vector<Case> kv_transfer_cases() {
  std::vector<Case> cases;
  for (const DType dtype : kFloatTypes)
    for (const std::int64_t d : {1, 7, 64, 576}) {
      cases.push_back(layer_case(dtype, d));
      cases.push_back(page_first_case(dtype, d));
    }
  return cases;
}

}  // namespace musaic::checks
