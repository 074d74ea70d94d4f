#include "backends/cpu/launch.h"
#include "ops/speculative_tree/core.h"

namespace musaic::MUSAIC_TARGET {
namespace {

constexpr std::int64_t kStepsPerThread = 16384;

template <class F>
void each_request(std::int64_t batch_size, std::int64_t steps, F f) {
  auto body = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) f(b);
  };
  cpu::parallel(batch_size, 1 + kStepsPerThread / (steps + 1), body);
}

template <class T>
void sample_request(const SampleTreeArgs& s, std::int64_t b) {
  SampledPath<T> walk(s, b);
  if (!walk.valid) return;
  const bool subtract = s.draft != nullptr && walk.path.may_go_on();
  const auto is_rejected = [&](std::int64_t token) {
    std::int64_t c = walk.first_rejected;
    for (std::int64_t n = 0; n < walk.rejected; ++n) {
      if (get(s.tree.candidates, walk.path.base + c) == token) return true;
      if (n + 1 < walk.rejected) c = get(s.tree.links.next_sibling, walk.path.base + c);
    }
    return false;
  };
  const std::int64_t first = walk.row * s.vocab_size;
  float max = 0.0f;
  for (std::int64_t i = 0; i < s.vocab_size; ++i) {
    const float r = residual<T>(s, first + i, subtract);
    if (r > max && !is_rejected(i)) max = r;
  }
  std::int64_t token = s.vocab_size - 1;
  if (max > 0.0f) {
    const WeightScale scale = weight_scale(weight_exponent(max));
    const auto weight = [&](std::int64_t i) {
      const float r = residual<T>(s, first + i, subtract);
      return r > 0.0f && !is_rejected(i) ? scale.weight(r) : std::uint64_t{0};
    };
    std::uint64_t mass = 0, prefix = 0;
    for (std::int64_t i = 0; i < s.vocab_size; ++i) mass += weight(i);
    const std::uint64_t point = share_of(s.uniform_final[b], mass);
    for (std::int64_t i = 0; i < s.vocab_size; ++i) {
      prefix += weight(i);
      if (prefix > point) {
        token = i;
        break;
      }
    }
  }
  walk.path.end(token);
}

}  // namespace

void build_tree_kernel_efficient(const BuildTreeArgs& a, Stream) {
  each_request(a.batch_size, a.num_nodes * a.num_nodes, [&](std::int64_t b) {
    std::int64_t before = 0;
    for (std::int64_t j = 0; a.mask_mode == 0 && j < b && before >= 0; ++j) {
      const std::int64_t length = get(a.seq_lens, j);
      before = length < 0 || length > a.mask_bytes ? -1 : before + length;
    }
    const MaskPlace place = mask_place(a, b, before);
    if (place.start < 0) raise_fault(a.bad_seq_len, DeviceFault::kIndexOutOfRange, b, get(a.seq_lens, b));
    for (std::int64_t i = 0; i < a.num_nodes; ++i) find_parent(a, b, i);
    for (std::int64_t i = 0; i < a.num_nodes; ++i) find_depth(a, b, i);
    for (std::int64_t i = 0; i < a.num_nodes; ++i) finish_node(a, b, i, place);
    for (std::int64_t i = 0; i < a.num_nodes; ++i) number_node(a, b, i);
  });
}

void reconstruct_indices_from_tree_mask(const ReconstructTreeArgs& a, Stream) {
  each_request(a.batch_size, a.num_nodes * a.num_nodes, [&](std::int64_t b) {
    const std::int64_t base = b * a.num_nodes;
    for (std::int64_t i = 0; i < a.num_nodes; ++i) read_mask_row(a, b, i);
    for (std::int64_t i = 0; i < a.num_nodes; ++i)
      link_node(a.links, base, a.num_nodes, i, [](std::int64_t) { return true; });
    for (std::int64_t i = 0; i < a.num_nodes; ++i) set(a.links.retrive_index, base + i, base + i);
  });
}

void verify_tree_greedy(const VerifyTreeArgs& a, Stream) {
  each_request(a.batch_size, a.num_nodes, [&](std::int64_t b) { verify_request(a, b); });
}

void tree_speculative_sampling_target_only(const SampleTreeArgs& s, Stream) {
  each_request(s.tree.batch_size, s.vocab_size, [&](std::int64_t b) {
    for_float_kind(s.dtype, [&](auto* t) { sample_request<std::remove_pointer_t<decltype(t)>>(s, b); });
  });
}

void segment_packbits(const PackBitsArgs& a, Stream) {
  each_request(a.batch_size, a.x_size / a.batch_size, [&](std::int64_t b) {
    const Segment s = segment_of(a, b, true);
    for (std::int64_t k = 0; k < s.bytes; ++k)
      a.y[s.out + k] = pack_flags(a.x + s.in + 8 * k, s.length - 8 * k);
  });
}

}  // namespace musaic::MUSAIC_TARGET
