#include "bench/bench.h"

namespace musaic::bench {
namespace {

struct Chains {
  OwnedTensor candidates, index, next, sibling, predicts, accepted, count, target;

  Chains(std::int64_t b, std::int64_t d)
      : candidates(kInt64, {b, d}),
        index(kInt64, {b, d}),
        next(kInt64, {b, d}),
        sibling(kInt64, {b, d}),
        predicts(kInt32, {b * d}),
        accepted(kInt32, {b, d}),
        count(kInt32, {b}),
        target(kInt64, {b, d}) {
    for (std::int64_t i = 0; i < b * d; ++i) {
      candidates.data_as<std::int64_t>()[i] = i % d;
      index.data_as<std::int64_t>()[i] = i;
      next.data_as<std::int64_t>()[i] = i % d + 1 < d ? i % d + 1 : -1;
      sibling.data_as<std::int64_t>()[i] = -1;
      target.data_as<std::int64_t>()[i] = i % d + 1;
    }
  }
};

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"requests", "nodes"})->Args({1, 8})->Args({64, 64})->UseRealTime();
}

/// Reads the links, writes links and positions and a mask of nodes x nodes.
void BM_build_tree(benchmark::State& state) {
  const std::int64_t b = state.range(0), d = state.range(1);
  OwnedTensor parents(kInt64, {b, d}), selected(kInt64, {b, d - 1}), lengths(kInt64, {b}),
      mask(kBool, {b, d, d}), positions(kInt64, {b * d}), index(kInt64, {b, d}), next(kInt64, {b, d}),
      sibling(kInt64, {b, d});
  for (std::int64_t i = 0; i < b * d; ++i) parents.data_as<std::int64_t>()[i] = i % d - 1;
  for (std::int64_t i = 0; i < b * (d - 1); ++i) selected.data_as<std::int64_t>()[i] = i % (d - 1);
  for (std::int64_t i = 0; i < b; ++i) lengths.data_as<std::int64_t>()[i] = 100;
  for (auto _ : state)
    build_tree_kernel_efficient(parents, selected, lengths, mask, positions, index, next, sibling, 1, d, d,
                                1);
  set_traffic(state, b * d * (6 * 8 + d));
}
BENCHMARK(BM_build_tree)->Apply(shapes);

void BM_reconstruct_indices(benchmark::State& state) {
  const std::int64_t b = state.range(0), d = state.range(1);
  OwnedTensor lengths(kInt64, {b}), mask(kBool, {b, d, d}), positions(kInt64, {b * d}), index(kInt64, {b, d}),
      next(kInt64, {b, d}), sibling(kInt64, {b, d});
  for (std::int64_t i = 0; i < b; ++i) lengths.data_as<std::int64_t>()[i] = 100;
  for (std::int64_t i = 0; i < b * d * d; ++i) mask.data_as<unsigned char>()[i] = i % d <= i / d % d;
  for (auto _ : state)
    reconstruct_indices_from_tree_mask(mask, lengths, positions, index, next, sibling, b, d);
  set_traffic(state, b * d * (4 * 8 + d));
}
BENCHMARK(BM_reconstruct_indices)->Apply(shapes);

void BM_verify_greedy(benchmark::State& state) {
  const std::int64_t b = state.range(0), d = state.range(1);
  const Chains c(b, d);
  for (auto _ : state)
    verify_tree_greedy(c.predicts, c.accepted, c.count, c.candidates, c.index, c.next, c.sibling, c.target);
  set_traffic(state, b * d * 6 * 8);
}
BENCHMARK(BM_verify_greedy)->Apply(shapes);

/// Rejects the first token: one row of probabilities is read.
void BM_tree_sampling(benchmark::State& state) {
  const std::int64_t b = state.range(0), d = 4, v = 32000;
  const Chains c(b, d);
  OwnedTensor coins(kFloat32, {b, d}), last(kFloat32, {b}), target(kFloat32, {b, d, v});
  for (std::int64_t i = 0; i < b * d; ++i) coins.data_as<float>()[i] = 0.9f;
  for (std::int64_t i = 0; i < b; ++i) last.data_as<float>()[i] = 0.5f;
  for (std::int64_t i = 0; i < b * d * v; ++i) target.data_as<float>()[i] = 1.0f / 32000;
  for (auto _ : state)
    tree_speculative_sampling_target_only(c.predicts, c.accepted, c.count, c.candidates, c.index, c.next,
                                          c.sibling, coins, last, target, {});
  set_traffic(state, b * v * 4);
}
BENCHMARK(BM_tree_sampling)->ArgName("requests")->Arg(1)->Arg(64)->UseRealTime();

void BM_segment_packbits(benchmark::State& state) {
  const std::int64_t b = state.range(0), n = 1 << 16;
  OwnedTensor x(kBool, {b * n}), y(kUInt8, {b * n / 8}), in(kInt32, {b + 1}), out(kInt32, {b + 1});
  fill_random(y, 1);
  for (std::int64_t i = 0; i < b * n; ++i) x.data_as<unsigned char>()[i] = i % 3 == 0;
  for (std::int64_t i = 0; i <= b; ++i) {
    in.data_as<std::int32_t>()[i] = static_cast<std::int32_t>(i * n);
    out.data_as<std::int32_t>()[i] = static_cast<std::int32_t>(i * n / 8);
  }
  for (auto _ : state) segment_packbits(x, in, out, y, b);
  set_traffic(state, b * (n + n / 8));
}
BENCHMARK(BM_segment_packbits)->ArgName("segments")->Arg(1)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace musaic::bench
