// Values of experts, their total order, and the weights of those that were chosen, for every backend.
#pragma once

#include "device/device.h"
#include "device/rounded.h"
#include "ops/moe_routing/args.h"

namespace musaic::MUSAIC_TARGET {
namespace {

MUSAIC_FN float load_at(const void* row, FloatKind kind, std::int64_t i) {
  if (kind == FloatKind::kBF16) return load(static_cast<const BFloat16*>(row)[i]);
  if (kind == FloatKind::kF16) return load(static_cast<const Half*>(row)[i]);
  return static_cast<const float*>(row)[i];
}

MUSAIC_FN const void* logits_of(const MoeRoutingArgs& a, std::int64_t row) {
  if (a.dtype == FloatKind::kF32) return row_of<const float>(a.input, row);
  return row_of<const std::uint16_t>(a.input, row);
}

/// What a logit counts for before the bias.
template <class V>
MUSAIC_FN V score_of(const MoeRoutingArgs& a, V x) {
  if (!a.softmax) {
    const V s = logistic(x);
    return a.round_scores ? rounded(s, a.dtype) : s;
  }
  if (a.soft_cap == 0.0f) return x;
  return all<V>(a.soft_cap) * tanh(div(x, all<V>(a.soft_cap)));
}

template <class V>
MUSAIC_FN V biased(const MoeRoutingArgs& a, V score, V bias) {
  const V v = score + bias;
  return a.round_scores ? rounded(v, a.dtype) : v;
}

/// The values that experts are ordered by.
template <class Chunk>
MUSAIC_FN F32x8 values_of(const MoeRoutingArgs& a, const void* logits, const Chunk& c) {
  const F32x8 s = score_of(a, load_kind(c, logits, a.dtype));
  return a.bias == nullptr ? s : biased(a, s, load_kind(c, a.bias, a.bias_dtype));
}
MUSAIC_FN float value_of(const MoeRoutingArgs& a, const void* logits, std::int64_t e) {
  const float s = score_of(a, load_at(logits, a.dtype, e));
  return a.bias == nullptr ? s : biased(a, s, load_at(a.bias, a.bias_dtype, e));
}

// A place is a value with its index as one number: larger is earlier in the order "value descending, then index
// ascending". NaNs come after -infinity; 0 is no place.
inline constexpr std::uint32_t kNanKey = 1;

MUSAIC_FN std::uint32_t key_of(float v) { return v == v ? order_key(v) : kNanKey; }
MUSAIC_FN std::uint64_t place_of(std::uint32_t key, std::int64_t index) {
  return (std::uint64_t{key} << 32) | static_cast<std::uint32_t>(~static_cast<std::uint32_t>(index));
}
MUSAIC_FN std::uint32_t key_at(std::uint64_t place) { return static_cast<std::uint32_t>(place >> 32); }
MUSAIC_FN std::int64_t index_at(std::uint64_t place) {
  return static_cast<std::int64_t>(static_cast<std::uint32_t>(~static_cast<std::uint32_t>(place)));
}

/// The two largest numbers of a group; NaNs count as -infinity.
struct LargestTwo {
  float first, second;
  MUSAIC_FN void take(float v) {
    const float low = first < v ? first : v;  // a NaN leaves both as they are
    second = low > second ? low : second;
    first = v > first ? v : first;
  }
  MUSAIC_FN void take(const LargestTwo& o) {
    take(o.first);
    take(o.second);
  }
  /// What the groups are ordered by.
  MUSAIC_FN std::uint32_t key(std::int64_t group_size) const {
    return key_of(group_size == 1 ? first : first + second);
  }
};
MUSAIC_FN LargestTwo no_values() {
  const float lowest = from_bits(0xff800000u);
  return {lowest, lowest};
}

/// e^(z - max), where equal infinities are 0 apart.
template <class V>
MUSAIC_FN V relative(V z, float max) {
  return select(z == all<V>(max), all<V>(1.0f), exp(z - all<V>(max)));
}

/// The weight of a chosen expert before it is divided. max: the row's largest value.
MUSAIC_FN float raw_weight(const MoeRoutingArgs& a, const void* logits, std::uint64_t place, float max) {
  if (a.softmax) return relative(value_of_key(key_at(place)), max);
  return score_of(a, load_at(logits, a.dtype, index_at(place)));
}

/// What raw weights become.
struct Weighing {
  float divisor, scale;
  bool is_zero;
  MUSAIC_FN float operator()(float raw) const { return is_zero ? 0.0f : div(raw, divisor) * scale; }
};
/// total: the sum of the row's relative(), for softmax; routed: the sum of the raw weights.
MUSAIC_FN Weighing weighing(const MoeRoutingArgs& a, bool has_nan, float total, float routed) {
  const float divisor = a.renormalize ? routed : a.softmax ? total : 1.0f;
  return {divisor, a.scale, has_nan || !(divisor > 0.0f)};
}

MUSAIC_FN void write_id(const MoeRoutingArgs& a, std::int64_t row, std::int64_t slot, std::int64_t id) {
  if (a.id_bytes == 8)
    row_of<std::int64_t>(a.ids, row)[slot] = id;
  else
    row_of<std::int32_t>(a.ids, row)[slot] = static_cast<std::int32_t>(id);
}
MUSAIC_FN void write_shared(const MoeRoutingArgs& a, std::int64_t row, std::int64_t i, bool has_nan) {
  row_of<float>(a.weights, row)[a.num_routed + i] = has_nan ? 0.0f : a.shared_weight;
  write_id(a, row, a.num_routed + i, a.num_experts + i);
}

}  // namespace
}  // namespace musaic::MUSAIC_TARGET
