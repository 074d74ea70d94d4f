"""One small, valid call of each operator: CASES[name]() gives the arguments, on the host."""

import torch

B, D, V = 5, 37, 101


def seeded():
    return torch.Generator().manual_seed(CASES_SEED)


CASES_SEED = 20240229


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=seeded()).to(dtype)


def poison(*shape, dtype=torch.float32):
    return torch.full(shape, float("nan") if dtype.is_floating_point else 77, dtype=dtype)


def vector(*values, dtype=torch.int32):
    return torch.tensor(values, dtype=dtype)


def gguf_q8_0(rows, columns):
    """Blocks of 32 elements: a float16 scale and 32 int8 values."""
    blocks = rows * columns // 32
    scales = torch.rand(blocks, 1, generator=seeded()).half().view(torch.uint8).reshape(blocks, 2)
    values = torch.randint(0, 256, (blocks, 32), generator=seeded(), dtype=torch.uint8)
    return torch.cat([scales, values], 1).reshape(rows, -1)


Q8_0 = 8


def _random_state(b):
    return torch.arange(b, dtype=torch.int64) + 11, torch.arange(b, dtype=torch.int64) * 3


def _sampling(rows, more):
    seed, offset = _random_state(B)
    return [poison(B, dtype=torch.int32), None, rows, None, seed, offset, None, *more]


def _attention():
    tokens, heads, kv_heads, d, pages, page = 3, 4, 2, 16, 6, 4
    table = torch.arange(6, dtype=torch.int32).reshape(3, 2)
    return [poison(tokens, heads, d), poison(tokens, heads), randn(tokens, heads, d), randn(pages, page, kv_heads, d),
            randn(pages, page, kv_heads, d), table, vector(8, 5, 1), None, 0.25]


CASES = {
    "rmsnorm": lambda: [poison(B, D), randn(B, D), randn(D), 1e-6],
    "gemma_rmsnorm": lambda: [poison(B, D), randn(B, D), randn(D), 1e-6],
    "fused_add_rmsnorm": lambda: [randn(B, D), randn(B, D) + 1, randn(D), 1e-6],
    "gemma_fused_add_rmsnorm": lambda: [randn(B, D), randn(B, D) + 1, randn(D), 1e-6],
    "silu_and_mul": lambda: [poison(B, D), randn(B, 2 * D)],
    "gelu_and_mul": lambda: [poison(B, D), randn(B, 2 * D)],
    "gelu_tanh_and_mul": lambda: [poison(B, D), randn(B, 2 * D)],
    "rotary_embedding": lambda: [randn(B, 2, 16), randn(B, 1, 16), torch.arange(B), randn(8, 16), 16, True],
    "merge_state_v2": lambda: [poison(B, 3, D), poison(B, 3), randn(B, 3, D), randn(B, 3), randn(B, 3, D) + 1, randn(B, 3) - 1],
    "kv_cache_store": lambda: [poison(4, 4, 2, 16), poison(4, 4, 2, 16), randn(3, 2, 16), randn(3, 2, 16), vector(5, -1, 9)],
    "paged_attention": _attention,
    "ggml_dequantize": lambda: [poison(4, 64), gguf_q8_0(4, 64), Q8_0, 4, 64],
    "ggml_embedding_rows": lambda: [poison(3, 64), gguf_q8_0(4, 64), vector(2, 0, 3), Q8_0],
    "ggml_mul_mat_a8": lambda: [poison(3, 4), gguf_q8_0(4, 64), randn(3, 64), Q8_0, 4],
    "ggml_mul_mat_vec_a8": lambda: [poison(1, 4), gguf_q8_0(4, 64), randn(1, 64), Q8_0, 4],
    "argmax": lambda: [poison(B, dtype=torch.int32), randn(B, V)],
    "softmax": lambda: [poison(B, V), randn(B, V)],
    "sampling_from_logits": lambda: _sampling(randn(B, V), [None, None, None, None, 0.7, 20, 0.9, 0.01]),
    "sampling_from_probs": lambda: _sampling(randn(B, V).softmax(-1), [None, None, None, 20, 0.9, 0.01]),
    "top_k_renorm_probs": lambda: [poison(B, V), randn(B, V).softmax(-1), None, 5],
    "top_p_renorm_probs": lambda: [poison(B, V), randn(B, V).softmax(-1), None, 0.7],
    "top_k_mask_logits": lambda: [poison(B, V), randn(B, V), None, 5],
    "topk_softmax": lambda: [poison(B, 3), poison(B, 3, dtype=torch.int32), randn(B, D), randn(D), True],
    "topk_sigmoid": lambda: [poison(B, 3), poison(B, 3, dtype=torch.int32), randn(B, D), randn(D), True],
    "moe_fused_gate": lambda: [poison(B, 3), poison(B, 3, dtype=torch.int32), randn(B, 16), randn(16), 4, 2, 1, 2.5],
    "kimi_k2_moe_fused_gate": lambda: [poison(B, 3), poison(B, 3, dtype=torch.int32), randn(B, D), randn(D)],
    "moe_align_block_size": lambda: [poison(40, dtype=torch.int32), poison(10, dtype=torch.int32), poison(1, dtype=torch.int32),
                                     vector(0, 3, -1, 3, 1, 0), 5, 4],
    "moe_sum": lambda: [poison(B, D), randn(B, 4, D)],
    "moe_sum_reduce": lambda: [poison(B, D), randn(B, 4, D), randn(B, 4), 2.5],
    "gelu_quick": lambda: [poison(B, D), randn(B, D)],
    "fused_mul_add": lambda: [poison(B, D), randn(B, D), randn(B, D) + 1, 2.5],
    "concat_mla_k": lambda: [poison(B, 4, 24), randn(B, 4, 16), randn(B, 1, 8)],
    "concat_mla_absorb_q": lambda: [poison(B, 4, 24), randn(B, 4, 16), randn(B, 4, 8)],
    "apply_token_bitmask_inplace": lambda: [randn(3, 70), vector(5, -1, 9, 0, 3, 7).reshape(3, 2)],
    "per_token_quant_8bit": lambda: [poison(B, D, dtype=torch.int8), poison(B), randn(B, D)],
    "per_tensor_quant_8bit": lambda: [poison(B, D, dtype=torch.int8), poison(1), randn(B, D)],
    "per_token_group_quant_8bit": lambda: [poison(B, 32, dtype=torch.int8), poison(B, 2), randn(B, 32), None, 16, 1e-10, -128.0, 127.0],
}


def _draw(parameters):
    return lambda: [randn(B, V).softmax(-1), poison(B, dtype=torch.int32), None, *parameters, True, None]


# Upstream's calls, in upstream's order.
UPSTREAM = {
    "rmsnorm": lambda: [poison(B, D), randn(B, D), randn(D), 1e-6, False],
    "gemma_rmsnorm": lambda: [poison(B, D), randn(B, D), randn(D), 1e-6, True],
    "fused_add_rmsnorm": lambda: [randn(B, D), randn(B, D) + 1, randn(D), 1e-6, False],
    "gemma_fused_add_rmsnorm": lambda: [randn(B, D), randn(B, D) + 1, randn(D), 1e-6, False],
    "silu_and_mul": CASES["silu_and_mul"],
    "gelu_and_mul": CASES["gelu_and_mul"],
    "gelu_tanh_and_mul": CASES["gelu_tanh_and_mul"],
    "rotary_embedding": lambda: [torch.arange(B), randn(B, 2, 16), randn(B, 1, 16), 16, randn(8, 16), True],
    "musa_rotary_embedding_contiguous": lambda: [torch.arange(B), randn(B, 2, 16), randn(B, 1, 16), 0, randn(8, 16), True],
    "merge_state_v2": lambda: [randn(B, 3, D), randn(B, 3), randn(B, 3, D) + 1, randn(B, 3) - 1, poison(B, 3, D), poison(B, 3)],
    "ggml_dequantize": lambda: [gguf_q8_0(4, 64), Q8_0, 4, 64, torch.float32],
    "ggml_mul_mat_a8": lambda: [gguf_q8_0(4, 64), randn(3, 64), Q8_0, 4],
    "ggml_mul_mat_vec_a8": lambda: [gguf_q8_0(4, 64), randn(1, 64), Q8_0, 4],
    "topk_softmax": lambda: [poison(B, 3), poison(B, 3, dtype=torch.int32), randn(B, D), True, 0.0, None],
    "topk_sigmoid": lambda: [poison(B, 3), poison(B, 3, dtype=torch.int32), randn(B, D), True, randn(D)],
    "moe_fused_gate": lambda: [randn(B, 16), randn(16), 4, 2, 3, 1, 2.5, True],
    "kimi_k2_moe_fused_gate": lambda: [randn(B, D), randn(D), 3, True, 2.872, False],
    "moe_align_block_size": lambda: [vector(0, 3, -1, 3, 1, 0), 5, 4, poison(40, dtype=torch.int32), poison(10, dtype=torch.int32),
                                     poison(1, dtype=torch.int32), poison(6, dtype=torch.int32), True],
    "moe_sum": lambda: [randn(B, 4, D), poison(B, D)],
    "moe_sum_reduce": lambda: [randn(B, 4, D), poison(B, D), 2.5],
    "gelu_quick": lambda: [poison(B, D), randn(B, D)],
    "musa_fused_mul_add": lambda: [poison(B, D), randn(B, D), randn(B, D) + 1, 2.5],
    "concat_mla_k": lambda: [poison(B, 4, 24), randn(B, 4, 16), randn(B, 1, 8)],
    "concat_mla_absorb_q": lambda: [randn(B, 4, 16), randn(B, 4, 8), poison(B, 4, 24)],
    "apply_token_bitmask_inplace_cuda": lambda: [randn(3, 70), vector(5, -1, 9, 0, 3, 7).reshape(3, 2), None],
    "sgl_per_token_quant_fp8": lambda: [randn(B, D), poison(B, D, dtype=torch.int8), poison(B, 1)],
    "sgl_per_token_group_quant_8bit": lambda: [randn(B, 32), poison(B, 32, dtype=torch.int8), poison(B, 2), 16, 1e-10, -128.0, 127.0, False],
    "sgl_per_token_group_quant_8bit_v2": lambda: [randn(B, 64), poison(B, 32, dtype=torch.int8), poison(B, 1, dtype=torch.int32), 16, 1e-10,
                                                  -128.0, 127.0, True, True, None],
    "top_k_renorm_probs": lambda: [randn(B, V).softmax(-1), poison(B, V), None, 5],
    "top_p_renorm_probs": lambda: [randn(B, V).softmax(-1), poison(B, V), None, 0.7],
    "top_k_mask_logits": lambda: [randn(B, V), poison(B, V), None, 5],
    "top_p_sampling_from_probs": _draw([None, 0.9]),
    "min_p_sampling_from_probs": _draw([None, 0.1]),
    "top_k_top_p_sampling_from_probs": _draw([None, 50.0, None, 0.9]),
    "musa_top_k_top_p_sampling_from_probs": _draw([None, 50.0, None, 0.9]),
}
UPSTREAM["_top_k_first_sampling_from_probs"] = UPSTREAM["top_k_top_p_sampling_from_probs"]
DRAWS = [name for name in UPSTREAM if "sampling" in name]


def to(arguments, device):
    return [a.to(device) if isinstance(a, torch.Tensor) else a for a in arguments]


def clone(arguments):
    return [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]


def operator(namespace, name):
    return getattr(getattr(torch.ops, namespace), name).default


def written(op):
    """Positions of the arguments that an operator's schema marks as written."""
    return [i for i, a in enumerate(op._schema.arguments) if a.alias_info is not None and a.alias_info.is_write]


def results(op, arguments):
    """All that a call gives: its results and what it wrote."""
    returned = op(*arguments)
    returned = [] if returned is None else [returned] if isinstance(returned, torch.Tensor) else list(returned)
    return returned + [arguments[i] for i in written(op) if arguments[i] is not None]


def same_bytes(a, b):
    a, b = a.cpu().contiguous(), b.cpu().contiguous()
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))
