// Merging attention over two disjoint sets of keys.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Combines two partial softmax-attention results over disjoint keys. Per token and head, with a = s_a and b
/// = s_b the natural logarithms of the sums of exponentials (a base-2 sum is first multiplied by ln 2 by the
/// caller):
///
///     v_merged = (v_a e^a + v_b e^b) / (e^a + e^b)
///     s_merged = ln(e^a + e^b)
///
/// \param v_merged  [tokens, heads, dim], float32, float16 or bfloat16; may be the very same view as v_a or
///                  v_b
/// \param s_merged  [tokens, heads], float32; may be the very same view as s_a or s_b
/// \param v_a, v_b  [tokens, heads, dim], each any of the three dtypes
/// \param s_a, s_b  [tokens, heads], float32; -infinity: no key on that side; +infinity is read as -infinity
///
/// The last dimension of v is contiguous, all other strides are free.
///
/// Tier: exact. In float32, m = max(a, b), w_a = e^(a - m), w_b = e^(b - m), z = w_a + w_b (e^x, ln x:
/// device/math.h): v_merged = fma(v_a, w_a / z, v_b * (w_b / z)), then one rounding to the dtype; s_merged =
/// m + ln z. A side without a key is the identity whatever its v holds: the other side's v, converted, and s
/// are the result; without a key on either side v_merged = 0 and s_merged = -infinity. A NaN in a or b gives
/// NaNs in that head alone. Any dim; nothing is written for zero tokens or heads; dim = 0 writes s_merged.
///
/// Source: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
void merge_state_v2(const Tensor& v_merged, const Tensor& s_merged, const Tensor& v_a, const Tensor& s_a,
                    const Tensor& v_b, const Tensor& s_b, Stream stream = {});

}  // namespace musaic
