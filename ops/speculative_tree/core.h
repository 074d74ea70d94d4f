// Trees of draft tokens: what one node, one request or one byte needs, on every backend. Links come from the
// caller: each walk is bounded by the number of nodes and each index is compared before it is used.
#pragma once

#include "device/device.h"
#include "ops/speculative_tree/args.h"

namespace musaic::MUSAIC_TARGET {

MUSAIC_FN std::int64_t get(const IntegerArray& a, std::int64_t i) {
  if (a.bytes == 8) return static_cast<const std::int64_t*>(a.data)[i];
  return static_cast<const std::int32_t*>(a.data)[i];
}
MUSAIC_FN void set(const IntegerArray& a, std::int64_t i, std::int64_t v) {
  if (a.bytes == 8)
    static_cast<std::int64_t*>(a.data)[i] = v;
  else
    static_cast<std::int32_t*>(a.data)[i] = static_cast<std::int32_t>(v);
}

// While a tree is being built, retrive_index holds each node's parent and positions its depth; the last step
// replaces both. The root and a node whose parent is not there have the parent -1; the depth of a node whose
// ancestors form a circle is -1.

/// The children of a node, in rising order: the first one and the next one after node i.
template <class IsLinked>
MUSAIC_FN void link_node(const TreeLinks& t, std::int64_t base, std::int64_t num_nodes, std::int64_t i,
                         IsLinked is_linked) {
  const std::int64_t parent = get(t.retrive_index, base + i);
  const bool has_siblings = parent >= 0 && is_linked(i);
  std::int64_t child = -1, sibling = -1;
  // A child may stand before its parent if the caller did not sort the candidates.
  for (std::int64_t j = 1; j < num_nodes && (child < 0 || (has_siblings && sibling < 0)); ++j) {
    const std::int64_t p = get(t.retrive_index, base + j);
    if (p < 0 || !is_linked(j)) continue;
    if (child < 0 && p == i) child = j;
    if (has_siblings && sibling < 0 && j > i && p == parent) sibling = j;
  }
  set(t.next_token, base + i, child);
  set(t.next_sibling, base + i, sibling);
}

MUSAIC_FN void find_parent(const BuildTreeArgs& a, std::int64_t b, std::int64_t i) {
  std::int64_t parent = -1;
  if (i > 0) {
    const std::int64_t first = b * (a.num_nodes - 1), candidate = get(a.selected, first + i - 1);
    const std::int64_t q = candidate < 0 ? -1 : candidate / a.topk;
    if (q == 0) parent = 0;
    if (q > 0 && q < a.parents_per_request) {
      const std::int64_t wanted = get(a.parents, b * a.parents_per_request + q);
      for (std::int64_t j = 1; j < a.num_nodes && parent < 0; ++j)
        if (get(a.selected, first + j - 1) == wanted) parent = j;
    }
    if (parent < 0)
      raise_fault(a.bad_selected, DeviceFault::kIndexOutOfRange, b * a.num_nodes + i, candidate);
  }
  set(a.links.retrive_index, b * a.num_nodes + i, parent);
}

MUSAIC_FN void find_depth(const BuildTreeArgs& a, std::int64_t b, std::int64_t i) {
  const std::int64_t base = b * a.num_nodes;
  std::int64_t depth = 0, node = i;
  while (node > 0 && depth < a.num_nodes) {
    const std::int64_t parent = get(a.links.retrive_index, base + node);
    node = parent < 0 ? 0 : parent;
    ++depth;
  }
  if (node > 0) {
    depth = -1;
    raise_fault(a.bad_selected, DeviceFault::kIndexOutOfRange, base + i,
                get(a.selected, b * (a.num_nodes - 1) + i - 1));
  }
  set(a.positions, base + i, depth);
}

/// Where the columns of request b's draft tokens begin in row 0, and the step to the next row, in bytes.
struct MaskPlace {
  std::int64_t start, step;
};

/// `before`: the sum of the verified lengths of earlier requests; negative: one of them is not usable.
MUSAIC_FN MaskPlace mask_place(const BuildTreeArgs& a, std::int64_t b, std::int64_t before) {
  const std::int64_t d = a.num_nodes;
  if (a.mask_mode == 1) return {b * d * d, d};
  if (a.mask_mode == 2) {
    const std::int64_t bytes = d <= 8 ? 1 : d <= 16 ? 2 : 4;
    return {b * d * bytes, bytes};
  }
  const std::int64_t length = get(a.seq_lens, b);
  if (before < 0 || length < 0 || length > a.mask_bytes || before > a.mask_bytes) return {-1, 0};
  const std::int64_t room = a.mask_bytes / d;  // rows of one byte
  if (before + length + (b + 1) * d > room) return {-1, 0};
  return {d * before + b * d * d + length, length + d};
}

MUSAIC_FN void finish_node(const BuildTreeArgs& a, std::int64_t b, std::int64_t i, const MaskPlace& place) {
  const std::int64_t base = b * a.num_nodes, depth = get(a.positions, base + i);
  link_node(a.links, base, a.num_nodes, i, [&](std::int64_t j) { return get(a.positions, base + j) >= 0; });
  if (place.start < 0) return;
  unsigned char* row = a.mask + place.start + i * place.step;
  if (a.mask_mode == 2) {
    std::uint32_t bits = 1u | (1u << i);
    std::int64_t node = i;
    for (std::int64_t n = 0; n < depth; ++n) {
      const std::int64_t parent = get(a.links.retrive_index, base + node);
      node = parent < 0 ? 0 : parent;
      bits |= 1u << node;
    }
    for (std::int64_t k = 0; k < place.step; ++k) row[k] = static_cast<unsigned char>(bits >> (8 * k));
    return;
  }
  for (std::int64_t j = 0; j < a.num_nodes; ++j) row[j] = j == 0 || j == i;
  std::int64_t node = i;
  for (std::int64_t n = 0; n < depth; ++n) {
    const std::int64_t parent = get(a.links.retrive_index, base + node);
    node = parent < 0 ? 0 : parent;
    row[node] = 1;
  }
}

MUSAIC_FN void number_node(const BuildTreeArgs& a, std::int64_t b, std::int64_t i) {
  const std::int64_t at = b * a.num_nodes + i, depth = get(a.positions, at);
  const std::int64_t steps = depth < 0 ? 1 : depth;
  // Unsigned, so that a length which is no length overflows without harm.
  set(a.positions, at,
      static_cast<std::int64_t>(static_cast<std::uint64_t>(get(a.seq_lens, b)) +
                                static_cast<std::uint64_t>(steps)));
  set(a.links.retrive_index, at, at);
}

MUSAIC_FN void read_mask_row(const ReconstructTreeArgs& a, std::int64_t b, std::int64_t i) {
  const std::int64_t at = b * a.num_nodes + i;
  const unsigned char* row = a.mask + at * a.num_nodes;
  std::int64_t parent = -1, count = 0;
  for (std::int64_t j = 0; j < i; ++j)
    if (row[j] != 0) {
      parent = j;
      ++count;
    }
  set(a.links.retrive_index, at, parent);
  set(a.positions, at,
      static_cast<std::int64_t>(static_cast<std::uint64_t>(get(a.seq_lens, b)) +
                                static_cast<std::uint64_t>(count)));
}

/// The path down a tree that a verifier accepts.
struct TreePath {
  const VerifyTreeArgs& a;
  std::int64_t base, last, node, accepted, visits;

  MUSAIC_FN TreePath(const VerifyTreeArgs& args, std::int64_t b)
      : a(args), base(b * args.num_nodes), last(-1), node(0), accepted(0), visits(0) {}

  /// The flat number of a node, or -1 with a fault.
  MUSAIC_FN std::int64_t flat(std::int64_t n) const {
    const std::int64_t v = get(a.links.retrive_index, base + n);
    if (v >= 0 && v < a.num_predicts && v < a.batch_size * a.num_nodes) return v;
    raise_fault(a.bad_index, DeviceFault::kIndexOutOfRange, base + n, v);
    return -1;
  }
  MUSAIC_FN bool start() {
    last = flat(0);
    set(a.accept_token_num, base / a.num_nodes, 0);
    if (last < 0) return false;
    if (a.num_accepted > 0) set(a.accept_index, base / a.num_nodes * a.num_accepted, last);
    return true;
  }
  MUSAIC_FN std::int64_t bounded(const IntegerArray& links, std::int64_t n, const FaultSink& fault) {
    const std::int64_t v = get(links, base + n);
    if (v == -1) return -1;
    if (v <= 0 || v >= a.num_nodes || visits >= a.num_nodes) {
      raise_fault(fault, DeviceFault::kIndexOutOfRange, base + n, v);
      return -1;
    }
    ++visits;
    return v;
  }
  MUSAIC_FN std::int64_t first_child() { return bounded(a.links.next_token, node, a.bad_token_link); }
  MUSAIC_FN std::int64_t sibling(std::int64_t child) {
    return bounded(a.links.next_sibling, child, a.bad_sibling_link);
  }
  /// Takes a child with its token; false if its number cannot be used.
  MUSAIC_FN bool take(std::int64_t child, std::int64_t token) {
    const std::int64_t next = flat(child);
    if (next < 0) return false;
    set(a.predicts, last, token);
    ++accepted;
    last = next;
    node = child;
    set(a.accept_index, base / a.num_nodes * a.num_accepted + accepted, last);
    return true;
  }
  MUSAIC_FN bool may_go_on() const { return accepted < a.num_accepted - 1; }
  MUSAIC_FN void end(std::int64_t token) {
    set(a.predicts, last, token);
    set(a.accept_token_num, base / a.num_nodes, accepted);
  }
};

MUSAIC_FN void verify_request(const VerifyTreeArgs& a, std::int64_t b) {
  TreePath path(a, b);
  if (!path.start()) return;
  bool found = true;
  while (found && path.may_go_on()) {
    const std::int64_t token = get(a.target_predict, path.last);
    found = false;
    for (std::int64_t c = path.first_child(); c >= 0 && !found; c = found ? c : path.sibling(c))
      if (token >= 0 && get(a.candidates, path.base + c) == token) {
        found = path.take(c, token);
        if (!found) break;
      }
  }
  path.end(get(a.target_predict, path.last));
}

/// floor(x * mass) for x in [0, 1), at most mass - 1 for anything else that is not below 0; 0 below.
MUSAIC_FN std::uint64_t share_of(float x, std::uint64_t mass) {
  if (mass == 0 || x <= 0.0f) return 0;
  if (!(x < 1.0f)) return mass - 1;
  const std::uint32_t bits = as_bits(x), exponent = bits >> 23;
  const std::uint32_t mantissa = exponent == 0 ? bits : (bits & 0x7fffffu) | 0x800000u;
  const int shift = 150 - static_cast<int>(exponent == 0 ? 1 : exponent);
  const U128 product = multiply_wide(mantissa, mass);
  if (shift >= 128) return 0;
  if (shift >= 64) return product.high >> (shift - 64);
  return (product.low >> shift) | (product.high << (64 - shift));  // shift is at least 24
}

/// A probability that can be drawn: NaNs, infinities and negative numbers cannot.
MUSAIC_FN float drawable(float p) { return p > 0.0f && p <= 3.40282347e38f ? p : 0.0f; }

/// A probability in steps of 2^-40.
MUSAIC_FN std::uint64_t absolute_weight(float p) {
  return p < 1.0f ? weight_scale(0).weight(drawable(p)) : std::uint64_t{p >= 1.0f} << 40;
}

/// coin < sigma / threshold with sigma in steps of 2^-40, exactly; threshold in (0, 1].
MUSAIC_FN bool coin_is_below(float coin, float threshold, std::uint64_t sigma) {
  if (!(coin < 1.0f)) return false;
  if (coin <= 0.0f) return sigma > 0;
  const auto mantissa = [](float x) {
    return std::uint64_t{(as_bits(x) >> 23) == 0 ? as_bits(x) : (as_bits(x) & 0x7fffffu) | 0x800000u};
  };
  const auto scale = [](float x) {
    return static_cast<int>((as_bits(x) >> 23) == 0 ? 1 : as_bits(x) >> 23) - 150;
  };
  // coin * threshold * 2^40 = product * 2^-shift; coin < 1 and threshold <= 1 make the shift at least 7.
  const std::uint64_t product = mantissa(coin) * mantissa(threshold);
  const int shift = -(scale(coin) + scale(threshold)) - 40;
  return (shift >= 64 ? 0 : product >> shift) < sigma;
}

/// The walk of one request down its tree by coins. Afterwards the final token is drawn from row `row`, without
/// the `rejected` siblings that begin with `first_rejected`.
template <class T>
struct SampledPath {
  TreePath path;
  std::int64_t row, first_rejected, rejected;
  bool valid;

  MUSAIC_FN SampledPath(const SampleTreeArgs& s, std::int64_t b)
      : path(s.tree, b), row(b * s.tree.num_nodes), first_rejected(-1), rejected(0), valid(false) {
    valid = path.start();
    bool found = valid;
    const T* target = static_cast<const T*>(s.target);
    while (found && path.may_go_on()) {
      const float coin = s.uniform[path.base + path.node];
      std::uint64_t sigma = 0;
      found = false;
      first_rejected = -1;
      rejected = 0;
      for (std::int64_t c = path.first_child(); c >= 0 && !found; c = found ? c : path.sibling(c)) {
        const std::int64_t token = get(s.tree.candidates, path.base + c);
        if (token >= 0 && token < s.vocab_size) {
          const float p = load(target[row * s.vocab_size + token]);
          sigma += absolute_weight(p);
          if (coin_is_below(coin, s.threshold_acc, sigma) || p >= s.threshold_single) {
            found = path.take(c, token);
            if (!found) break;
            continue;
          }
          if (s.mark_rejected)
            static_cast<T*>(s.draft)[row * s.vocab_size + token] = target[row * s.vocab_size + token];
        }
        if (first_rejected < 0) first_rejected = c;
        ++rejected;
      }
      if (found) {
        row = path.base + path.node;
        first_rejected = -1;
        rejected = 0;
      }
    }
  }
};

/// What is left of an entry of the row that the final token comes from.
template <class T>
MUSAIC_FN float residual(const SampleTreeArgs& s, std::int64_t at, bool subtract) {
  const float p = load(static_cast<const T*>(s.target)[at]);
  return drawable(subtract ? p - load(static_cast<const T*>(s.draft)[at]) : p);
}

/// One byte of eight flags.
MUSAIC_FN unsigned char pack_flags(const unsigned char* x, std::int64_t count) {
  unsigned bits = 0;
  for (int i = 0; i < 8; ++i)
    if (i < count && x[i] != 0) bits |= 1u << i;
  return static_cast<unsigned char>(bits);
}

struct Segment {
  std::int64_t in, length, out, bytes;  // bytes 0: nothing to write
};

MUSAIC_FN Segment segment_of(const PackBitsArgs& a, std::int64_t s, bool report) {
  const std::int64_t in = get(a.input_indptr, s), in_end = get(a.input_indptr, s + 1);
  const std::int64_t out = get(a.output_indptr, s), out_end = get(a.output_indptr, s + 1);
  if (in < 0 || in_end < in || in_end > a.x_size) {
    if (report) raise_fault(a.bad_input, DeviceFault::kIndexOutOfRange, s, in_end);
    return {0, 0, 0, 0};
  }
  const std::int64_t bytes = (in_end - in + 7) / 8;
  if (out < 0 || out_end < out || out_end > a.y_size || out_end - out < bytes) {
    if (report) raise_fault(a.bad_output, DeviceFault::kIndexOutOfRange, s, out_end);
    return {0, 0, 0, 0};
  }
  return {in, in_end - in, out, bytes};
}

}  // namespace musaic::MUSAIC_TARGET
