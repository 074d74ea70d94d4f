#include "bench/bench.h"

namespace musaic::bench {
namespace {

/// Reads the ids twice and writes the sorted places.
void BM_moe_align_block_size(benchmark::State& state) {
  const std::int64_t tokens = state.range(0), k = state.range(1), experts = state.range(2), block = 64;
  const std::int64_t n = tokens * k, slots = experts + 1, room = n + slots * (block - 1);
  OwnedTensor ids(kInt32, {tokens, k}), sorted(kInt32, {room}), blocks(kInt32, {(room + block - 1) / block}),
      total(kInt32, {1}), scratch(kUInt8, {moe_align_block_size_workspace_bytes(n, slots)});
  for (std::int64_t i = 0; i < n; ++i)
    ids.data_as<std::int32_t>()[i] = static_cast<std::int32_t>(i * 7919 % experts);
  const Workspace workspace{scratch.data_as<void>(), scratch.size_in_bytes()};
  for (auto _ : state)
    moe_align_block_size(sorted, blocks, total, ids, slots, block, true, false, {}, workspace);
  set_traffic(state, 4 * (2 * n + room));
}
BENCHMARK(BM_moe_align_block_size)
    ->ArgNames({"tokens", "k", "experts"})
    ->Args({1, 8, 256})
    ->Args({512, 8, 256})
    ->Args({16384, 8, 256})
    ->UseRealTime();

}  // namespace
}  // namespace musaic::bench
