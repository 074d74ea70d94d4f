// Joining the parts of keys and queries of multi-head latent attention.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

// Bits are copied, NaN payloads included. Every dtype of 1, 2 or 4 bytes; last dimensions contiguous, others strided at
// will.

/// k[t, h, : N] = k_nope[t, h, :] and k[t, h, N :] = k_rope[t, 0, :] for every head h.
///
/// \param k       [num_tokens, num_heads, N + R], any heads, N and R
/// \param k_nope  [num_tokens, num_heads, N], k's dtype
/// \param k_rope  [num_tokens, 1, R], k's dtype
///
/// Tier: exact.
void concat_mla_k(const Tensor& k, const Tensor& k_nope, const Tensor& k_rope, Stream stream = {});

/// out[i, j, : A] = a[i, j, :] and out[i, j, A :] = b[i, j, :].
///
/// \param out  [n, m, A + B]
/// \param a    [n, m, A], out's dtype
/// \param b    [n, m, B], out's dtype
///
/// Tier: exact.
void concat_mla_absorb_q(const Tensor& out, const Tensor& a, const Tensor& b, Stream stream = {});

}  // namespace musaic
