// Attention over a paged cache of keys and values, for prefill and decode.
#pragma once

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

/// Softmax attention of each query over the keys of its own request. Query head h uses the key and value head
/// g = h / (num_heads / num_kv_heads). With x_j = scale * sum_d query[d] * key_j[d], and x_j = soft_cap *
/// tanh(x_j / soft_cap) where soft_cap > 0, over the visible positions j:
///
///     lse = ln(sum_j e^x_j)        out = sum_j e^(x_j - lse) * value_j
///
/// Position j of request r lies in page page_table[r, j / page_size] at offset j % page_size. The n queries
/// of a request are its last n positions: query i of n is at position p = seq_lens[r] - n + i. With `causal`
/// it sees positions up to p, otherwise up to seq_lens[r] - 1; with window > 0 only those above p - window.
///
/// \param out           [num_tokens, num_heads, v_head_dim], query's dtype; last dimension contiguous, any
///                      other strides
/// \param lse           [num_tokens, num_heads], float32, natural logarithm, any strides; no tensor: not
///                      written
/// \param query         [num_tokens, num_heads, k_head_dim], float32, float16 or bfloat16; last dimension
///                      contiguous, any other strides; num_heads is a multiple of num_kv_heads
/// \param k_cache       [num_pages, page_size, num_kv_heads, k_head_dim], any of the three dtypes; last
///                      dimension contiguous, any other strides
/// \param v_cache       [num_pages, page_size, num_kv_heads, v_head_dim], k_cache's dtype, likewise
/// \param page_table    [num_requests, max_pages], int32, any strides; requests may share pages; entries of
///                      pages that no query of the request sees are not looked at
/// \param seq_lens      [num_requests], int32, contiguous: keys of the request, those of its queries included
/// \param query_starts  [num_requests + 1], int32, contiguous, not falling: request r owns the tokens from
///                      query_starts[r] up to query_starts[r + 1]; tokens that no request owns are not
///                      written. No tensor: request r owns token r (decode), and num_tokens is num_requests
/// \param scale         factor of the scores, rounded to float32; usually 1 / sqrt(k_head_dim)
/// \param window        number of positions that a query sees, its own included; 0: all
/// \param soft_cap      bound of the scores, rounded to float32; 0: none
/// \param causal        whether a query sees no position after its own
/// \param workspace     at least paged_attention_workspace_bytes(query, k_cache, v_cache, page_table) bytes
///
/// A query that sees nothing (seq_lens 0, or a position below 0) gets out 0 and lse -infinity, and so does
/// one all of whose scores are -infinity. A NaN or +infinity among its scores makes a row NaN, and so does a
/// NaN in a visible value; contents of the cache at positions that a query does not see have no effect on it,
/// whatever they are.
///
/// What only the device can see is recorded as DeviceFault::kIndexOutOfRange with the request as its row, and
/// all rows of that request get out 0 and lse -infinity: a page outside [0, num_pages) that one of its
/// queries sees, or seq_lens[r] below 0 or above max_pages * page_size. A request whose query_starts fall or
/// leave [0, num_tokens] is recorded so too, and nothing is written for it.
///
/// Tier: exact. The result of a query depends only on its own position, query and visible keys and values; never
/// on batch, threads, page size, placement, or on whether it came in a prefill or alone. All in float32, each
/// operation rounded once:
///
///  - score: lane i of 8 starts at +0 and takes d = i (mod 8) in rising order with fma(q_d, k_d, lane); the
///    lanes are added as ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)); times scale; then soft_cap * tanh(x /
///    soft_cap).
///  - split: positions [256 b, 256 b + 256), those that are visible. m = max x_j; p_j = exp(x_j - m); l = sum
///    p_j in 8 lanes (j mod 8, rising) added as above; o = sum p_j value_j with fma(p_j, value_j, o) from +0,
///    j rising.
///  - merge, from the first split to the last: M = max(m, m'), c = exp(m - M), c' = exp(m' - M), l = fma(l,
///    c, l' * c'), o = fma(o, c, o' * c'), m = M. A split without a finite m changes nothing: it is the
///    identity, and the first other split is taken as it is.
///  - out = o / l, rounded once to the dtype; lse = m + log(l).
///
/// Source: Vaswani et al., "Attention Is All You Need", 2017; splits and merging as in Dao,
/// "FlashAttention-2", 2023; soft cap as in Gemma 2.
void paged_attention(const Tensor& out, const Tensor& lse, const Tensor& query, const Tensor& k_cache,
                     const Tensor& v_cache, const Tensor& page_table, const Tensor& seq_lens,
                     const Tensor& query_starts, double scale, std::int64_t window = 0, double soft_cap = 0.0,
                     bool causal = true, Stream stream = {}, Workspace workspace = {});

/// Bytes of workspace that paged_attention wants for tensors of these shapes; they need no memory. More
/// tokens, requests, pages of a table or (on the CPU) threads, as num_threads() says at the time of the call,
/// never want less, so a caller may ask once for its largest batch.
std::int64_t paged_attention_workspace_bytes(const Tensor& query, const Tensor& k_cache,
                                             const Tensor& v_cache, const Tensor& page_table);

}  // namespace musaic
