// 32 lanes a row, four rows a block. A lane owns eight consecutive experts of each 256; it keeps their keys in
// registers (kChunks times eight of them), or computes them anew where a row is longer. Winners are found one by one:
// the lanes agree on the first place, and the lane that held it looks for its next one.
#pragma once

#include "backends/backend.h"
#include "ops/moe_routing/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kRouteThreads = 128;
inline constexpr int kRouteRows = kRouteThreads / 32;

MUSAIC_FN std::uint64_t first_of_warp(std::uint64_t place) {
  for (int by = 1; by < 32; by *= 2) {
    const std::uint64_t other = exchange_xor(place, by);
    place = other > place ? other : place;
  }
  return place;
}
MUSAIC_FN std::uint64_t max_place(std::uint64_t a, std::uint64_t b) { return a > b ? a : b; }

/// The experts of one lane.
template <int kChunks>
struct LaneExperts {
  const MoeRoutingArgs& a;
  const void* logits;
  int lane;
  std::uint64_t least_group;  // 0: experts of every group may be chosen
  std::uint32_t key[kChunks > 0 ? 8 * kChunks : 1];

  MUSAIC_FN std::int64_t group_size() const { return a.num_experts / a.num_groups; }

  /// f(index, value) for each expert of the lane, values computed anew.
  template <class F>
  MUSAIC_FN void each_anew(F f) const {
    for (std::int64_t i = 8 * std::int64_t{lane}; i < a.num_experts; i += 256) {
      const int count = a.num_experts - i < 8 ? static_cast<int>(a.num_experts - i) : 8;
      const F32x8 z =
          count == 8 ? values_of(a, logits, FullChunk{i}) : values_of(a, logits, TailChunk{i, count});
#pragma unroll
      for (int j = 0; j < 8; ++j)
        if (j < count) f(i + j, z[j]);
    }
  }

  MUSAIC_FN bool load_keys() {
    bool has_nan = false;
    if constexpr (kChunks == 0) {
      each_anew([&](std::int64_t, float z) { has_nan |= !(z == z); });
    } else {
#pragma unroll
      for (int c = 0; c < kChunks; ++c) {
        const std::int64_t i = 8 * std::int64_t{lane} + 256 * c, left = a.num_experts - i;
        F32x8 z = splat(F32x8{}, 0.0f);
        if (left >= 8)
          z = values_of(a, logits, FullChunk{i});
        else if (left > 0)
          z = values_of(a, logits, TailChunk{i, static_cast<int>(left)});
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          key[8 * c + j] = j < left ? key_of(z[j]) : 0u;
          has_nan |= key[8 * c + j] == kNanKey;
        }
      }
    }
    return has_nan;
  }

  /// f(index, key) for each expert whose key is kept; key 0: not there, or not in a kept group.
  template <class F>
  MUSAIC_FN void each_key(F f) const {
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int j = 0; j < 8; ++j) f(8 * std::int64_t{lane} + 256 * c + j, key[8 * c + j]);
  }

  MUSAIC_FN std::uint64_t group_place(std::int64_t g) const {
    LargestTwo two = no_values();
    for (std::int64_t e = g * group_size(); e < (g + 1) * group_size(); ++e) two.take(value_of(a, logits, e));
    return place_of(two.key(group_size()), g);
  }
  /// The lane's first group after `bound`, computed anew.
  MUSAIC_FN std::uint64_t first_group_below(std::uint64_t bound) const {
    std::uint64_t best = 0;
    for (std::int64_t g = lane; g < a.num_groups; g += 32) {
      const std::uint64_t place = group_place(g);
      if (place < bound) best = max_place(best, place);
    }
    return best;
  }

  /// The lane's first expert after `bound`; 0: none.
  MUSAIC_FN std::uint64_t first_below(std::uint64_t bound) const {
    std::uint64_t best = 0;
    const auto take = [&](std::uint64_t place) {
      if (place < bound) best = max_place(best, place);
    };
    if constexpr (kChunks > 0) {
      each_key([&](std::int64_t e, std::uint32_t k) { take(k == 0 ? 0 : place_of(k, e)); });
    } else if (least_group == 0) {
      each_anew([&](std::int64_t e, float z) { take(place_of(key_of(z), e)); });
    } else {
      for (std::int64_t g = lane; g < a.num_groups; g += 32)
        if (group_place(g) >= least_group)
          for (std::int64_t e = g * group_size(); e < (g + 1) * group_size(); ++e)
            take(place_of(key_of(value_of(a, logits, e)), e));
    }
    return best;
  }

  /// The sum of relative() over all experts, by the library's definition of a sum.
  MUSAIC_FN float sum(float max) const {
    if constexpr (kChunks > 0) {
      F32x8 slots = splat(F32x8{}, 0.0f);
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int j = 0; j < 8; ++j)
          if (key[8 * c + j] > kNanKey) slots[j] += relative(value_of_key(key[8 * c + j]), max);
      float s = tree_sum(slots);
      for (int by = 1; by < 32; by *= 2) s += exchange_xor(s, by);
      return s;
    } else {
      const RowGroup<32> group;
      return group.sum(a.num_experts,
                       [&](auto c, F32x8 acc) { return acc + relative(values_of(a, logits, c), max); });
    }
  }
};

/// The last kept group's place. values: the row's, in shared memory; keys: room for the groups'.
MUSAIC_FN std::uint64_t keep_groups(const MoeRoutingArgs& a, const float* values, std::uint32_t* keys,
                                    int lane) {
  const std::int64_t size = a.num_experts / a.num_groups;
  int share = 32;  // lanes a group
  while (share > 1 && share * a.num_groups > 32) share /= 2;
  for (std::int64_t first = 0; first < a.num_groups; first += 32 / share) {
    const std::int64_t g = first + lane / share;
    LargestTwo two = no_values();
    // Groups begin at different experts, so that lanes read different banks.
    for (std::int64_t i = lane % share; i < size; i += share)
      if (g < a.num_groups) two.take(values[g * size + (i + lane / share) % size]);
    for (int by = 1; by < share; by *= 2) {
      const LargestTwo other{exchange_xor(two.first, by), exchange_xor(two.second, by)};
      two.take(other);
    }
    if (lane % share == 0 && g < a.num_groups) keys[g] = two.key(size);
  }
  sync_shared();
  const auto first_below = [&](std::uint64_t bound) {
    std::uint64_t best = 0;
    for (std::int64_t g = lane; g < a.num_groups; g += 32) {
      const std::uint64_t place = place_of(keys[g], g);
      if (place < bound) best = max_place(best, place);
    }
    return best;
  };
  std::uint64_t winner = 0, best = first_below(~std::uint64_t{0});
  for (std::int64_t n = 0; n < a.kept_groups; ++n) {
    winner = first_of_warp(best);
    if (best == winner) best = first_below(winner);
  }
  return winner;
}

template <int kChunks>
__global__ void __launch_bounds__(kRouteThreads) moe_routing_kernel(const MoeRoutingArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kRouteThreads);
  MUSAIC_DYNAMIC_SHARED(float, shared);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t k = a.num_routed;
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRouteRows; first < a.num_tokens;
       first += std::int64_t{gridDim.x} * kRouteRows) {
    // Rows past the end compute the last one and write nothing, so that control flow is the block's.
    const bool exists = first + warp < a.num_tokens;
    const std::int64_t row = exists ? first + warp : a.num_tokens - 1;
    LaneExperts<kChunks> experts{a, logits_of(a, row), lane, 0, {}};
    int nan_lanes = experts.load_keys() ? 1 : 0;
    for (int by = 1; by < 32; by *= 2) nan_lanes |= exchange_xor(nan_lanes, by);
    const bool has_nan = nan_lanes != 0;

    if (a.num_groups > 1) {
      if constexpr (kChunks > 0) {
        float* values = shared + warp * (a.num_experts + a.num_groups);
        std::uint32_t* keys = reinterpret_cast<std::uint32_t*>(values + a.num_experts);
        sync_shared();  // the row before has been read
        experts.each_key([&](std::int64_t e, std::uint32_t key) {
          if (e < a.num_experts) values[e] = key == kNanKey ? from_bits(0x7fc00000u) : value_of_key(key);
        });
        sync_shared();
        const std::uint64_t least = keep_groups(a, values, keys, lane);
        const auto size = static_cast<std::uint32_t>(a.num_experts / a.num_groups);
#pragma unroll
        for (int i = 0; i < 8 * kChunks; ++i) {
          const std::uint32_t e = static_cast<std::uint32_t>(8 * lane + 256 * (i / 8) + i % 8);
          if (e < a.num_experts && place_of(keys[e / size], e / size) < least) experts.key[i] = 0;
        }
      } else {
        std::uint64_t best = experts.first_group_below(~std::uint64_t{0});
        for (std::int64_t n = 0; n < a.kept_groups; ++n) {
          experts.least_group = first_of_warp(best);
          if (best == experts.least_group) best = experts.first_group_below(best);
        }
      }
    }

    float* weights = row_of<float>(a.weights, row);
    std::uint64_t best = experts.first_below(~std::uint64_t{0});
    float max = 0.0f, sum = 0.0f, raw = 0.0f;
    for (std::int64_t done = 0; done < k; done += 32) {
      const int count = k - done < 32 ? static_cast<int>(k - done) : 32;
      std::uint64_t mine = 0;  // lane j keeps winner done + j
      for (int j = 0; j < count; ++j) {
        const std::uint64_t winner = first_of_warp(best);
        if (lane == j) mine = winner;
        if (best == winner) best = experts.first_below(winner);
      }
      if (done == 0) max = value_of_key(key_at(exchange_from(mine, 0)));
      raw = lane < count ? raw_weight(a, experts.logits, mine, max) : 0.0f;
      for (int j = 0; j < count; ++j) sum += exchange_from(raw, j);
      if (exists && lane < count) {
        write_id(a, row, done + lane, index_at(mine));
        if (k > 32) weights[done + lane] = raw;
      }
    }
    const float all_experts = a.softmax && !a.renormalize ? experts.sum(max) : 1.0f;
    const Weighing weigh = weighing(a, has_nan, all_experts, sum);
    if (!exists) continue;
    for (std::int64_t j = lane; j < k; j += 32) weights[j] = weigh(k > 32 ? weights[j] : raw);
    for (std::int64_t i = lane; i < a.num_shared; i += 32) write_shared(a, row, i, has_nan);
  }
}

void launch_routing(const MoeRoutingArgs& a, Stream stream) {
  const unsigned blocks = blocks_for(a.num_tokens, kRouteRows);
  const std::size_t shared =
      a.num_groups > 1 ? static_cast<std::size_t>(a.num_experts + a.num_groups) * 4 * kRouteRows : 0;
  constexpr std::size_t kMostShared = 28 << 10;
  if (a.num_experts <= 256)
    MUSAIC_LAUNCH(moe_routing_kernel<1>, blocks, kRouteThreads, shared, stream, a);
  else if (a.num_experts <= 512)
    MUSAIC_LAUNCH(moe_routing_kernel<2>, blocks, kRouteThreads, shared, stream, a);
  else if (a.num_experts <= 1024 && shared <= kMostShared)
    MUSAIC_LAUNCH(moe_routing_kernel<4>, blocks, kRouteThreads, shared, stream, a);
  else
    MUSAIC_LAUNCH(moe_routing_kernel<0>, blocks, kRouteThreads, 0, stream, a);
}

}  // namespace

void topk_softmax(const MoeRoutingArgs& a, Stream stream) { launch_routing(a, stream); }
void topk_sigmoid(const MoeRoutingArgs& a, Stream stream) { launch_routing(a, stream); }
void moe_fused_gate(const MoeRoutingArgs& a, Stream stream) { launch_routing(a, stream); }
void kimi_k2_moe_fused_gate(const MoeRoutingArgs& a, Stream stream) { launch_routing(a, stream); }

}  // namespace musaic::MUSAIC_TARGET
