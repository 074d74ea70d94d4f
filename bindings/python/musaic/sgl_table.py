"""Upstream's Python functions: module -> name -> parameters, as sgl-kernel 0.4.2.post2 has them.

Recorded from public sources; `VERSIONS` says which SGLang pairs with it. A test compares ours with these, name by name.
"""

UPSTREAM_VERSION = "0.4.2.post2"
VERSIONS = {"0.4.1": "the MUSA operators of 2026-04", "0.4.2.post2": "with sampling on MUSA, 2026-05"}

_NORM = "input, weight, eps=1e-6, out=None, enable_pdl=None"
_FUSED_NORM = "input, residual, weight, eps=1e-6, enable_pdl=None"
_QUOTA = "block_quota=2, num_warps_per_block=32"
_TREE = "candidates, retrive_index, retrive_next_token, retrive_next_sibling"
_DRAW = "indices=None, deterministic=True, generator=None, check_nan=False"

MODULES = {
    "allreduce": {
        "init_custom_ar": "ipc_tensors, rank_data, rank, full_nvlink",
        "all_reduce": "fa, inp, out, reg_buffer, reg_buffer_sz_bytes",
        "register_buffer": "fa, fake_ipc_ptrs",
        "get_graph_buffer_ipc_meta": "fa",
        "register_graph_buffers": "fa, handles, offsets",
        "meta_size": "",
        "dispose": "fa",
    },
    "attention": {"merge_state_v2": "v_a, s_a, v_b, s_b, v_merged=None, s_merged=None"},
    "elementwise": {
        "rmsnorm": _NORM,
        "gemma_rmsnorm": _NORM,
        "fused_add_rmsnorm": _FUSED_NORM,
        "gemma_fused_add_rmsnorm": _FUSED_NORM,
        "silu_and_mul": "input, out=None",
        "gelu_and_mul": "input, out=None",
        "gelu_tanh_and_mul": "input, out=None",
        "rotary_embedding": "positions, query, key, head_size, cos_sin_cache, is_neox=True",
        "concat_mla_k": "k, k_nope, k_rope",
        "concat_mla_absorb_q": "a, b",
    },
    "gemm": {
        "awq_dequantize": "qweight, scales, qzeros",
        "bmm_fp8": "A, B, A_scale, B_scale, dtype, out=None",
        "dsv3_fused_a_gemm": "mat_a, mat_b, output=None",
        "dsv3_router_gemm": "hidden_states, router_weights, out_dtype=None",
        "fp8_scaled_mm": "mat_a, mat_b, scales_a, scales_b, out_dtype, bias=None",
        "int8_scaled_mm": "mat_a, mat_b, scales_a, scales_b, out_dtype, bias=None",
        "sgl_per_token_group_quant_8bit": "input, output_q, output_s, group_size, eps, fp8_min, fp8_max, scale_ue8m0=False, "
        "fuse_silu_and_mul=False, masked_m=None, enable_v2=None",
        "sgl_per_token_quant_fp8": "input, output_q, output_s",
    },
    "grammar": {"apply_token_bitmask_inplace_cuda": "logits, bitmask, indices=None"},
    "kvcacheio": {
        "transfer_kv_per_layer": f"src_k, dst_k, src_v, dst_v, src_indices, dst_indices, item_size, {_QUOTA}",
        "transfer_kv_per_layer_pf_lf": f"src_k, dst_k, src_v, dst_v, src_indices, dst_indices, layer_id, item_size, src_layout_dim, {_QUOTA}",
        "transfer_kv_per_layer_ph_lf": "src_k, dst_k, src_v, dst_v, src_indices, dst_indices, layer_id, item_size, src_layout_dim, "
        f"page_size, head_num, {_QUOTA}",
        "transfer_kv_all_layer": f"src_k_layers, dst_k_layers, src_v_layers, dst_v_layers, src_indices, dst_indices, item_size, num_layers, {_QUOTA}",
        "transfer_kv_all_layer_lf_pf": "src_k_layers, dst_k, src_v_layers, dst_v, src_indices, dst_indices, item_size, dst_layout_dim, "
        f"num_layers, {_QUOTA}",
        "transfer_kv_all_layer_lf_ph": "src_k_layers, dst_k, src_v_layers, dst_v, src_indices, dst_indices, item_size, dst_layout_dim, "
        f"num_layers, page_size, head_num, {_QUOTA}",
        "transfer_kv_per_layer_mla": f"src, dst, src_indices, dst_indices, item_size, {_QUOTA}",
        "transfer_kv_per_layer_mla_pf_lf": f"src, dst, src_indices, dst_indices, layer_id, item_size, src_layout_dim, {_QUOTA}",
        "transfer_kv_all_layer_mla": f"src_layers, dst_layers, src_indices, dst_indices, item_size, num_layers, {_QUOTA}",
        "transfer_kv_all_layer_mla_lf_pf": f"src_layers, dst, src_indices, dst_indices, item_size, dst_layout_dim, num_layers, {_QUOTA}",
        "transfer_kv_direct": "src_layers, dst_layers, src_indices, dst_indices, page_size",
        "transfer_kv_per_layer_direct_pf_lf": "src_ptrs, dst_ptrs, src_indices, dst_indices, layer_id, page_size",
        "transfer_kv_all_layer_direct_lf_pf": "src_ptrs, dst_ptrs, src_indices, dst_indices, page_size",
    },
    "memory": {"weak_ref_tensor": "tensor"},
    "moe": {
        "moe_align_block_size": "topk_ids, num_experts, block_size, sorted_token_ids, experts_ids, num_tokens_post_pad, cumsum_buffer, "
        "pad_sorted_token_ids=False, ignore_invalid_expert=False",
        "topk_softmax": "topk_weights, topk_ids, gating_output, renormalize=False, moe_softcapping=0.0, correction_bias=None",
        "topk_sigmoid": "topk_weights, topk_ids, gating_output, renormalize=False, correction_bias=None",
        "moe_fused_gate": "input_tensor, bias, num_expert_group, topk_group, topk, num_fused_shared_experts=0, routed_scaling_factor=0, "
        "apply_routed_scaling_factor_on_output=False",
        "kimi_k2_moe_fused_gate": "input_tensor, bias, topk, renormalize=True, routed_scaling_factor=1.0, "
        "apply_routed_scaling_factor_on_output=False",
        "moe_sum_reduce": "input_tensor, output_tensor, routed_scaling_factor=0",
        "moe_sum": "input_tensor, output_tensor",
    },
    "musa": {
        "musa_rotary_embedding_contiguous": "positions, query, key, head_size, cos_sin_cache, is_neox",
        "musa_batched_rotary_embedding_contiguous": "positions, query, key, head_size, cos_sin_cache, is_neox, rot_dim, cos_sin_cache_offsets",
        "musa_fused_gemv": "x, qweight, x_scales=None, qweight_scales=None, use_swigelu=False, use_rms_norm=False, gamma=None, eps=1e-6",
        "musa_fused_moe_gemv": "A, B, C, A_scale, B_scale, topk_weights, topk_ids, mul_routed_weight, topk, use_int4_w4a16, use_swigelu",
        "musa_fused_mul_add": "self, bias, scale, accurate=True",
        "top_k_renorm_probs": "probs, top_k",
        "top_p_renorm_probs": "probs, top_p",
        "top_p_sampling_from_probs": f"probs, top_p, {_DRAW}",
        "min_p_sampling_from_probs": f"probs, min_p, {_DRAW}",
        "top_k_top_p_sampling_from_probs": "probs, top_k, top_p, indices=None, filter_apply_order='top_k_first', deterministic=True, "
        "generator=None, check_nan=False",
    },
    "quantization": {
        "ggml_dequantize": "weight, quant_type, M, N, dtype",
        "ggml_mul_mat_vec_a8": "weight, x, quant_type, row",
        "ggml_mul_mat_a8": "weight, x, quant_type, row",
        "ggml_moe_a8": "input, weight, sorted_token_ids, expert_ids, num_token_post_padded, type, row, topk, tokens",
        "ggml_moe_a8_vec": "input, weight, topk_ids, top_k, type, row, tokens",
        "ggml_moe_get_block_size": "type",
    },
    "speculative": {
        "build_tree_kernel_efficient": "parent_list, selected_index, verified_seq_len, tree_mask, positions, retrive_index, "
        "retrive_next_token, retrive_next_sibling, topk, depth, draft_token_num, tree_mask_mode",
        "verify_tree_greedy": f"predicts, accept_index, accept_token_num, {_TREE}, target_predict",
        "tree_speculative_sampling_target_only": f"predicts, accept_index, accept_token_num, {_TREE}, uniform_samples, "
        "uniform_samples_for_final_sampling, target_probs, draft_probs, threshold_single=1.0, threshold_acc=1.0, deterministic=True",
        "reconstruct_indices_from_tree_mask": "tree_mask, verified_seq_len, positions, retrive_index, retrive_next_token, "
        "retrive_next_sibling, batch_size, draft_token_num",
        "segment_packbits": "x, input_indptr, output_indptr, y, batch_size",
    },
}
MODULES["sampling"] = {
    name: MODULES["musa"][name]
    for name in ("top_k_renorm_probs", "top_p_renorm_probs", "top_p_sampling_from_probs", "min_p_sampling_from_probs",
                 "top_k_top_p_sampling_from_probs")
} | {"top_k_mask_logits": "logits, top_k", "top_k_renorm_prob": "probs, top_k", "top_p_renorm_prob": "probs, top_p"}
MODULES["musa"] |= {"top_k_renorm_prob": "probs, top_k", "top_p_renorm_prob": "probs, top_p"}

# Not at package level upstream.
MODULE_ONLY = {"top_p_sampling_from_probs"} | {
    n for n in MODULES["kvcacheio"] if n not in ("transfer_kv_per_layer", "transfer_kv_all_layer", "transfer_kv_per_layer_mla", "transfer_kv_all_layer_mla")
}
