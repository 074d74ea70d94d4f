// A block a request, whose threads share the nodes or the entries of a row; a thread a request where the work is one
// walk.
#pragma once

#include "ops/speculative_tree/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

inline constexpr int kTreeThreads = 128;
inline constexpr int kDrawThreads = 512;
inline constexpr int kDrawWarps = kDrawThreads / 32;
inline constexpr int kListedSiblings = 256;  // rejected tokens beyond these are found by walking

/// Calls f(i) for each i of [0, n), shared by the block's threads, then waits for all of them.
template <class F>
MUSAIC_FN void each_node(std::int64_t n, F f) {
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
  sync_block();
}

__global__ void __launch_bounds__(kTreeThreads) build_tree_kernel(const BuildTreeArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kTreeThreads);
  MUSAIC_SHARED(std::int64_t[kTreeThreads], lengths);
  const int thread = static_cast<int>(threadIdx.x);
  for (std::int64_t b = blockIdx.x; b < a.batch_size; b += gridDim.x) {
    std::int64_t before = 0;
    for (std::int64_t j = thread; a.mask_mode == 0 && j < b && before >= 0; j += kTreeThreads) {
      const std::int64_t length = get(a.seq_lens, j);
      before = length < 0 || length > a.mask_bytes ? -1 : before + length;
    }
    lengths[thread] = before;
    sync_block();
    before = 0;
    for (int t = 0; t < kTreeThreads; ++t) before = before < 0 || lengths[t] < 0 ? -1 : before + lengths[t];
    const MaskPlace place = mask_place(a, b, before);
    if (place.start < 0 && thread == 0)
      raise_fault(a.bad_seq_len, DeviceFault::kIndexOutOfRange, b, get(a.seq_lens, b));
    each_node(a.num_nodes, [&](std::int64_t i) { find_parent(a, b, i); });
    each_node(a.num_nodes, [&](std::int64_t i) { find_depth(a, b, i); });
    each_node(a.num_nodes, [&](std::int64_t i) { finish_node(a, b, i, place); });
    each_node(a.num_nodes, [&](std::int64_t i) { number_node(a, b, i); });
  }
}

__global__ void __launch_bounds__(kTreeThreads) reconstruct_tree_kernel(const ReconstructTreeArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kTreeThreads);
  for (std::int64_t b = blockIdx.x; b < a.batch_size; b += gridDim.x) {
    const std::int64_t base = b * a.num_nodes;
    each_node(a.num_nodes, [&](std::int64_t i) { read_mask_row(a, b, i); });
    each_node(a.num_nodes, [&](std::int64_t i) {
      link_node(a.links, base, a.num_nodes, i, [](std::int64_t) { return true; });
    });
    each_node(a.num_nodes, [&](std::int64_t i) { set(a.links.retrive_index, base + i, base + i); });
  }
}

__global__ void __launch_bounds__(kTreeThreads) verify_tree_kernel(const VerifyTreeArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kTreeThreads);
  const std::int64_t step = std::int64_t{gridDim.x} * kTreeThreads;
  for (std::int64_t b = std::int64_t{blockIdx.x} * kTreeThreads + threadIdx.x; b < a.batch_size; b += step)
    verify_request(a, b);
}

struct DrawState {
  std::int64_t row, base, first_rejected, rejected, node, accepted, last, found;
  bool valid, subtract;
  std::uint32_t max[kDrawWarps];
  std::uint64_t mass[kDrawWarps];
  std::int64_t listed[kListedSiblings];
};

/// The first index of positive weight whose inclusive prefix exceeds the point; the last index without any. One warp
/// sums one contiguous part of the row; the block then searches the part that holds the point.
template <class T>
MUSAIC_FN std::int64_t draw_final(const SampleTreeArgs& s, std::int64_t b, DrawState& state) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const std::int64_t n = s.vocab_size, first = state.row * n;
  const std::int64_t part = ((n + kDrawWarps - 1) / kDrawWarps + 31) / 32 * 32;
  const std::int64_t begin = warp * part, end = begin + part < n ? begin + part : n;
  const auto is_rejected = [&](std::int64_t token) {
    const std::int64_t listed = state.rejected < kListedSiblings ? state.rejected : kListedSiblings;
    for (std::int64_t k = 0; k < listed; ++k)
      if (state.listed[k] == token) return true;
    std::int64_t c = state.rejected > kListedSiblings ? state.first_rejected : -1;
    for (std::int64_t k = 0; k < state.rejected && c >= 0; ++k) {
      if (get(s.tree.candidates, state.base + c) == token) return true;
      c = k + 1 < state.rejected ? get(s.tree.links.next_sibling, state.base + c) : -1;
    }
    return false;
  };
  const auto entry = [&](std::int64_t i) {
    const float r = residual<T>(s, first + i, state.subtract);
    return r > 0.0f && !is_rejected(i) ? r : 0.0f;
  };

  std::uint32_t max = 0;  // of non-negative floats the bits have their order
  for (std::int64_t i = begin + lane; i < end; i += 32) {
    const std::uint32_t bits = as_bits(entry(i));
    max = bits > max ? bits : max;
  }
  for (int by = 1; by < 32; by *= 2) {
    const std::uint32_t other = exchange_xor(max, by);
    max = other > max ? other : max;
  }
  if (lane == 0) state.max[warp] = max;
  sync_shared();
  for (int w = 0; w < kDrawWarps; ++w) max = state.max[w] > max ? state.max[w] : max;
  const WeightScale scale = weight_scale(weight_exponent(max != 0 ? from_bits(max) : 1.0f));

  std::uint64_t mass = 0;
  for (std::int64_t i = begin + lane; i < end; i += 32) mass += scale.weight(entry(i));
  for (int by = 1; by < 32; by *= 2) mass += exchange_xor(mass, by);
  if (lane == 0) state.mass[warp] = mass;
  if (thread == 0) state.found = n - 1;
  sync_shared();
  mass = 0;
  for (int w = 0; w < kDrawWarps; ++w) mass += state.mass[w];
  const std::uint64_t point = share_of(s.uniform_final[b], mass);
  std::uint64_t prefix = 0;
  std::int64_t chosen = 0;
  while (chosen < kDrawWarps - 1 && prefix + state.mass[chosen] <= point) prefix += state.mass[chosen++];
  // The warps pass over the same entries; the first of them keeps the result.
  const std::int64_t from = chosen * part, to = from + part < n ? from + part : n;
  bool open = mass > 0;
  for (std::int64_t i = from; i < to; i += 32) {
    const std::uint64_t w = i + lane < to ? scale.weight(entry(i + lane)) : 0;
    std::uint64_t sum = w;
    for (int by = 1; by < 32; by *= 2) {
      const std::uint64_t other = exchange_up(sum, by);
      sum += lane >= by ? other : 0;
    }
    if (open && warp == 0 && prefix + sum > point && prefix + sum - w <= point) state.found = i + lane;
    prefix += exchange_from(sum, 31);
    open = open && prefix <= point;
  }
  sync_shared();
  return state.found;
}

template <class T>
__global__ void __launch_bounds__(kDrawThreads) sample_tree_kernel(const SampleTreeArgs s) {
  MUSAIC_LAUNCH_BOUNDS(kDrawThreads);
  MUSAIC_SHARED(DrawState, state);
  for (std::int64_t b = blockIdx.x; b < s.tree.batch_size; b += gridDim.x) {
    sync_block();  // the request before has been read
    if (threadIdx.x == 0) {
      const SampledPath<T> walk(s, b);
      state.valid = walk.valid;
      state.row = walk.row;
      state.base = walk.path.base;
      state.first_rejected = walk.first_rejected;
      state.rejected = walk.rejected;
      state.node = walk.path.node;
      state.accepted = walk.path.accepted;
      state.last = walk.path.last;
      state.subtract = s.draft != nullptr && walk.path.may_go_on();
      std::int64_t c = walk.first_rejected;
      for (std::int64_t k = 0; k < walk.rejected && k < kListedSiblings; ++k) {
        state.listed[k] = get(s.tree.candidates, walk.path.base + c);
        if (k + 1 < walk.rejected) c = get(s.tree.links.next_sibling, walk.path.base + c);
      }
    }
    sync_block();
    const std::int64_t token = draw_final<T>(s, b, state);
    if (threadIdx.x == 0 && state.valid) {
      TreePath path(s.tree, b);
      path.last = state.last;
      path.accepted = state.accepted;
      path.end(token);
    }
  }
}

inline constexpr int kPackThreads = 256;

__global__ void __launch_bounds__(kPackThreads) pack_bits_kernel(const PackBitsArgs a) {
  MUSAIC_LAUNCH_BOUNDS(kPackThreads);
  for (std::int64_t b = blockIdx.x; b < a.batch_size; b += gridDim.x) {
    const Segment s = segment_of(a, b, threadIdx.x == 0);
    for (std::int64_t k = threadIdx.x; k < s.bytes; k += kPackThreads)
      a.y[s.out + k] = pack_flags(a.x + s.in + 8 * k, s.length - 8 * k);
  }
}

}  // namespace

void build_tree_kernel_efficient(const BuildTreeArgs& a, Stream stream) {
  MUSAIC_LAUNCH(build_tree_kernel, blocks_for(a.batch_size, 1), kTreeThreads, 0, stream, a);
}

void reconstruct_indices_from_tree_mask(const ReconstructTreeArgs& a, Stream stream) {
  MUSAIC_LAUNCH(reconstruct_tree_kernel, blocks_for(a.batch_size, 1), kTreeThreads, 0, stream, a);
}

void verify_tree_greedy(const VerifyTreeArgs& a, Stream stream) {
  MUSAIC_LAUNCH(verify_tree_kernel, blocks_for(a.batch_size, kTreeThreads), kTreeThreads, 0, stream, a);
}

void tree_speculative_sampling_target_only(const SampleTreeArgs& s, Stream stream) {
  const unsigned blocks = blocks_for(s.tree.batch_size, 1);
  if (s.dtype == FloatKind::kF32)
    MUSAIC_LAUNCH(sample_tree_kernel<float>, blocks, kDrawThreads, 0, stream, s);
  else if (s.dtype == FloatKind::kF16)
    MUSAIC_LAUNCH(sample_tree_kernel<Half>, blocks, kDrawThreads, 0, stream, s);
  else
    MUSAIC_LAUNCH(sample_tree_kernel<BFloat16>, blocks, kDrawThreads, 0, stream, s);
}

void segment_packbits(const PackBitsArgs& a, Stream stream) {
  MUSAIC_LAUNCH(pack_bits_kernel, blocks_for(a.batch_size, 1), kPackThreads, 0, stream, a);
}

}  // namespace musaic::MUSAIC_TARGET
