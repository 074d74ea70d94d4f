// Moving tokens of a KV cache between two pools, by lists of token numbers.
#pragma once

#include <vector>

#include "musaic/stream.h"
#include "musaic/tensor.h"

namespace musaic {

// Words of all of these. Names, argument order and layouts are those of the serving engines' transfers.
//
//   item        the bytes of one token of one layer in K (or in V; the whole row of a latent cache, "mla"):
//               item_size, any number from 1 on, at any alignment. Pieces whose two addresses agree modulo 16 are
//               copied fastest.
//   LF          layer first: a tensor per layer, token t at t * item_size. A layer tensor is contiguous, or its rows
//               (first dimension) are strided and item_size is the bytes of a row.
//   LF table    [num_layers], 64-bit integers on the device of the call: the address of each layer
//   PF          page first: layer L of token t at t * layout_dim + L * item_size; layout_dim in bytes
//   PH          page head, [pages, heads, page_size, layers, item_size / heads]: head h of token t of layer L at
//               (t / page_size) * page_size * layout_dim + h * (layout_dim / head_num) * page_size
//               + (t % page_size) * (layout_dim / head_num) + L * (item_size / head_num); contiguous
//   indices     [n], int32 or int64, contiguous: token src_indices[i] goes to token dst_indices[i]. On the device of the
//               call, or in host memory, which is read before the call returns. -1 on either side is padding, which is
//               skipped. Two equal destinations: which one stays is not specified.
//   pools       any dtype; only addresses and sizes matter. On the device of the call, or pinned host memory that the
//               device can address. Both may be one pool as long as no token is both read and written.
//   block_quota, num_warps_per_block
//               the share of the machine that the copy may take: so many blocks of so many warps of 32 (1 to 32); on
//               the CPU so many threads. Never changes results.
//   src_tokens, dst_tokens
//               of forms with tables: how many tokens a layer has; indices are checked against it. -1: unknown

/// LF to LF, one layer, K and V.
///
/// Tier: exact, as all of these; bytes of destinations that no index names keep their values. An index outside its pool
/// (compared in 64 bits) is recorded as DeviceFault::kIndexOutOfRange with its place in the list, and that token is not
/// copied; the others are. n = 0 copies nothing.
void transfer_kv_per_layer(const Tensor& src_k, const Tensor& dst_k, const Tensor& src_v, const Tensor& dst_v,
                           const Tensor& src_indices, const Tensor& dst_indices, std::int64_t item_size,
                           std::int64_t block_quota = 2, std::int64_t num_warps_per_block = 32,
                           Stream stream = {});
/// PF to LF, layer `layer_id`.
void transfer_kv_per_layer_pf_lf(const Tensor& src_k, const Tensor& dst_k, const Tensor& src_v,
                                 const Tensor& dst_v, const Tensor& src_indices, const Tensor& dst_indices,
                                 std::int64_t layer_id, std::int64_t item_size, std::int64_t src_layout_dim,
                                 std::int64_t block_quota = 2, std::int64_t num_warps_per_block = 32,
                                 Stream stream = {});
/// PH to LF, layer `layer_id`. head_num divides item_size and src_layout_dim.
void transfer_kv_per_layer_ph_lf(const Tensor& src_k, const Tensor& dst_k, const Tensor& src_v,
                                 const Tensor& dst_v, const Tensor& src_indices, const Tensor& dst_indices,
                                 std::int64_t layer_id, std::int64_t item_size, std::int64_t src_layout_dim,
                                 std::int64_t page_size, std::int64_t head_num, std::int64_t block_quota = 2,
                                 std::int64_t num_warps_per_block = 32, Stream stream = {});
/// LF table to LF table, all layers.
void transfer_kv_all_layer(const Tensor& src_k_layers, const Tensor& dst_k_layers, const Tensor& src_v_layers,
                           const Tensor& dst_v_layers, const Tensor& src_indices, const Tensor& dst_indices,
                           std::int64_t item_size, std::int64_t num_layers, std::int64_t block_quota = 2,
                           std::int64_t num_warps_per_block = 32, std::int64_t src_tokens = -1,
                           std::int64_t dst_tokens = -1, Stream stream = {});
/// LF table to PF, all layers.
void transfer_kv_all_layer_lf_pf(const Tensor& src_k_layers, const Tensor& dst_k, const Tensor& src_v_layers,
                                 const Tensor& dst_v, const Tensor& src_indices, const Tensor& dst_indices,
                                 std::int64_t item_size, std::int64_t dst_layout_dim, std::int64_t num_layers,
                                 std::int64_t block_quota = 2, std::int64_t num_warps_per_block = 32,
                                 std::int64_t src_tokens = -1, Stream stream = {});
/// LF table to PH, all layers. head_num divides item_size and dst_layout_dim.
void transfer_kv_all_layer_lf_ph(const Tensor& src_k_layers, const Tensor& dst_k, const Tensor& src_v_layers,
                                 const Tensor& dst_v, const Tensor& src_indices, const Tensor& dst_indices,
                                 std::int64_t item_size, std::int64_t dst_layout_dim, std::int64_t num_layers,
                                 std::int64_t page_size, std::int64_t head_num, std::int64_t block_quota = 2,
                                 std::int64_t num_warps_per_block = 32, std::int64_t src_tokens = -1,
                                 Stream stream = {});
/// LF to LF, one layer of a latent cache.
void transfer_kv_per_layer_mla(const Tensor& src, const Tensor& dst, const Tensor& src_indices,
                               const Tensor& dst_indices, std::int64_t item_size,
                               std::int64_t block_quota = 2, std::int64_t num_warps_per_block = 32,
                               Stream stream = {});
/// PF to LF, layer `layer_id` of a latent cache.
void transfer_kv_per_layer_mla_pf_lf(const Tensor& src, const Tensor& dst, const Tensor& src_indices,
                                     const Tensor& dst_indices, std::int64_t layer_id, std::int64_t item_size,
                                     std::int64_t src_layout_dim, std::int64_t block_quota = 2,
                                     std::int64_t num_warps_per_block = 32, Stream stream = {});
/// LF table to LF table, all layers of a latent cache.
void transfer_kv_all_layer_mla(const Tensor& src_layers, const Tensor& dst_layers, const Tensor& src_indices,
                               const Tensor& dst_indices, std::int64_t item_size, std::int64_t num_layers,
                               std::int64_t block_quota = 2, std::int64_t num_warps_per_block = 32,
                               std::int64_t src_tokens = -1, std::int64_t dst_tokens = -1,
                               Stream stream = {});
/// LF table to PF, all layers of a latent cache.
void transfer_kv_all_layer_mla_lf_pf(const Tensor& src_layers, const Tensor& dst, const Tensor& src_indices,
                                     const Tensor& dst_indices, std::int64_t item_size,
                                     std::int64_t dst_layout_dim, std::int64_t num_layers,
                                     std::int64_t block_quota = 2, std::int64_t num_warps_per_block = 32,
                                     std::int64_t src_tokens = -1, Stream stream = {});

// The direct forms: plain copies by the device's copy engine. The indices, wherever they lie, are read before the call
// returns, so it waits for the stream and cannot be captured. All are checked before the first copy: an index outside
// its pool is an Error here, and nothing is written. Tensors are contiguous; their number of tokens is a multiple of
// page_size. Host memory is pinned, and stays as it is until the stream gets there.

/// Layer tensors [tokens, ...] to layer tensors of the same row size; runs in which both lists rise by one are one copy.
void transfer_kv_direct(const std::vector<Tensor>& src_layers, const std::vector<Tensor>& dst_layers,
                        const Tensor& src_indices, const Tensor& dst_indices, std::int64_t page_size,
                        Stream stream = {});
/// Layer `layer_id` of page-first tensors [pages, layers, page_size, ...] to layer tensors [tokens, ...]; one pair
/// (latent) or two (K, V). Of each page only the first index is looked at: it names the page in the source, where it is
/// a multiple of page_size, and the first token in the destination.
void transfer_kv_per_layer_direct_pf_lf(const std::vector<Tensor>& src_ptrs,
                                        const std::vector<Tensor>& dst_ptrs, const Tensor& src_indices,
                                        const Tensor& dst_indices, std::int64_t layer_id,
                                        std::int64_t page_size, Stream stream = {});
/// Layer tensors, all K layers then all V layers, to one or two page-first tensors, page by page.
void transfer_kv_all_layer_direct_lf_pf(const std::vector<Tensor>& src_ptrs,
                                        const std::vector<Tensor>& dst_ptrs, const Tensor& src_indices,
                                        const Tensor& dst_indices, std::int64_t page_size,
                                        Stream stream = {});

}  // namespace musaic
