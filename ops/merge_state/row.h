// The computation, once for every backend.
#pragma once

#include "device/device.h"
#include "ops/merge_state/args.h"

namespace musaic::MUSAIC_TARGET {

/// The row of a view whose element type is known at run time.
MUSAIC_FN const void* row_of_kind(const RowView& v, FloatKind kind, std::int64_t row) {
  if (kind == FloatKind::kF32) return row_of<const float>(v, row);
  return row_of<const std::uint16_t>(v, row);
}

template <class T>
struct MergeStateHead {
  MergeStateArgs a;

  template <class Group>
  MUSAIC_FN void operator()(Group& group, std::int64_t row) const {
    const float infinity = from_bits(0x7f800000u);
    const float read_a = *row_of<const float>(a.s_a, row), read_b = *row_of<const float>(a.s_b, row);
    const float s_a = read_a == infinity ? -infinity : read_a, s_b = read_b == infinity ? -infinity : read_b;
    const bool empty_a = s_a == -infinity, empty_b = s_b == -infinity;
    // The greater weight is e^0 = 1. A side without a key is never multiplied, so what its vector holds is of
    // no account.
    const bool b_leads = s_a < s_b;
    const float m = b_leads ? s_b : s_a;
    const float lesser = exp((b_leads ? s_a : s_b) - m);
    const float w_a = b_leads ? lesser : 1.0f, w_b = b_leads ? 1.0f : lesser;
    const float z = w_a + w_b;
    const F32x8 p_a = all<F32x8>(div(w_a, z)), p_b = all<F32x8>(div(w_b, z));
    const float s = empty_a ? s_b : empty_b ? s_a : m + log(z);

    // The merged sum may lie where another lane has yet to read.
    group.sync();
    float* s_merged = row_of<float>(a.s_merged, row);
    group.each(1, [&](auto c) { c.store(s_merged, all<F32x8>(s)); });

    const void* v_a = row_of_kind(a.v_a, a.a_dtype, row);
    const void* v_b = row_of_kind(a.v_b, a.b_dtype, row);
    T* v_merged = row_of<T>(a.v_merged, row);
    if (empty_a && empty_b) {
      group.each(a.head_dim, [&](auto c) { c.store(v_merged, all<F32x8>(0.0f)); });
    } else if (empty_a || empty_b) {
      const void* v = empty_a ? v_b : v_a;
      const FloatKind kind = empty_a ? a.b_dtype : a.a_dtype;
      group.each(a.head_dim, [&](auto c) { c.store(v_merged, load_kind(c, v, kind)); });
    } else {
      group.each(a.head_dim, [&](auto c) {
        c.store(v_merged, fma(load_kind(c, v_a, a.a_dtype), p_a, load_kind(c, v_b, a.b_dtype) * p_b));
      });
    }
  }
};

void merge_state_v2(const MergeStateArgs& args, Stream stream) {
  for_float_kind(args.merged_dtype, [&](auto* t) {
    using T = std::remove_pointer_t<decltype(t)>;
    launch_rows(stream, args.num_rows, args.head_dim, MergeStateHead<T>{args});
  });
}

}  // namespace musaic::MUSAIC_TARGET
