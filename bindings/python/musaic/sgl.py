"""sgl_kernel's Python functions on our operators, under upstream's names and parameters.

A name that we have no operator for exists too, and raises NotImplementedError when it is called, not when it is imported.
`implemented()` tells which is which.
"""

import inspect as _inspect

import torch as _torch

from . import sgl_table as _table
from . import torch as _operators  # noqa: F401  registers torch.ops.musaic_sgl

_ops = _torch.ops.musaic_sgl
_OURS = {}  # name -> (function, the operators that it needs)


def _has(name):
    return f"musaic_sgl::{name}" in _NAMES


_NAMES = set(_torch._C._dispatch_get_all_op_names())


def _ours(*needed):
    def keep(function):
        _OURS[function.__name__] = (function, needed or (function.__name__,))
        return function

    return keep


def _norm(name):
    def function(input, weight, eps=1e-6, out=None, enable_pdl=None):
        out = _torch.empty_like(input) if out is None else out
        getattr(_ops, name)(out, input, weight, eps, bool(enable_pdl))
        return out

    function.__name__ = name
    return _ours()(function)


def _fused_norm(name):
    def function(input, residual, weight, eps=1e-6, enable_pdl=None):
        getattr(_ops, name)(input, residual, weight, eps, bool(enable_pdl))

    function.__name__ = name
    return _ours()(function)


def _gated(name):
    def function(input, out=None):
        if out is None:
            out = input.new_empty((*input.shape[:-1], input.shape[-1] // 2))
        getattr(_ops, name)(out, input)
        return out

    function.__name__ = name
    return _ours()(function)


for _name in ("rmsnorm", "gemma_rmsnorm"):
    _norm(_name)
for _name in ("fused_add_rmsnorm", "gemma_fused_add_rmsnorm"):
    _fused_norm(_name)
for _name in ("silu_and_mul", "gelu_and_mul", "gelu_tanh_and_mul"):
    _gated(_name)


@_ours()
def merge_state_v2(v_a, s_a, v_b, s_b, v_merged=None, s_merged=None):
    s_a, s_b = s_a.float(), s_b.float()
    v_merged = _torch.empty_like(v_a) if v_merged is None else v_merged
    s_merged = _torch.empty_like(s_a) if s_merged is None else s_merged
    _ops.merge_state_v2(v_a, s_a, v_b, s_b, v_merged, s_merged)
    return v_merged, s_merged


@_ours()
def topk_softmax(topk_weights, topk_ids, gating_output, renormalize=False, moe_softcapping=0.0, correction_bias=None):
    _ops.topk_softmax(topk_weights, topk_ids, gating_output, renormalize, moe_softcapping, correction_bias)


@_ours()
def moe_align_block_size(topk_ids, num_experts, block_size, sorted_token_ids, experts_ids, num_tokens_post_pad, cumsum_buffer,
                         pad_sorted_token_ids=False, ignore_invalid_expert=False):
    _ops.moe_align_block_size(topk_ids, num_experts, block_size, sorted_token_ids, experts_ids, num_tokens_post_pad, cumsum_buffer,
                              pad_sorted_token_ids, ignore_invalid_expert)


@_ours("sgl_per_token_group_quant_8bit_v2")
def sgl_per_token_group_quant_8bit(input, output_q, output_s, group_size, eps, fp8_min, fp8_max, scale_ue8m0=False,
                                   fuse_silu_and_mul=False, masked_m=None, enable_v2=None):
    # Both versions are one operator here.
    _ops.sgl_per_token_group_quant_8bit_v2(input, output_q, output_s, group_size, eps, fp8_min, fp8_max, scale_ue8m0,
                                           fuse_silu_and_mul, masked_m)


@_ours()
def concat_mla_absorb_q(a, b):
    out = a.new_empty((*a.shape[:-1], a.shape[-1] + b.shape[-1]))
    _ops.concat_mla_absorb_q(a, b, out)
    return out


@_ours()
def musa_fused_mul_add(self, bias, scale, accurate=True):
    if not accurate:
        return bias.add_(self, alpha=scale)
    output = _torch.empty_like(self)
    _ops.musa_fused_mul_add(output, self, bias, scale)
    return output


@_ours()
def weak_ref_tensor(tensor):
    return _ops.weak_ref_tensor(tensor) if isinstance(tensor, _torch.Tensor) else tensor


@_ours()
def apply_token_bitmask_inplace_cuda(logits, bitmask, indices=None):
    if isinstance(indices, (list, tuple)):
        indices = _torch.tensor(indices, dtype=_torch.int32, device=logits.device)
    _ops.apply_token_bitmask_inplace_cuda(logits, bitmask, indices)


@_ours()
def segment_packbits(x, input_indptr, output_indptr, y, batch_size):
    _ops.segment_packbits(x, input_indptr, output_indptr, y, batch_size, 0)  # the stream is the current one


def _parameter(value, dtype):
    """(tensor, scalar) of a parameter that is one number, or one for each request."""
    return (value.to(dtype), 0) if isinstance(value, _torch.Tensor) else (None, value)


def _checked(probs, check_nan):
    if check_nan and _torch.isnan(probs).any():
        raise ValueError("probs: a NaN, expected numbers")
    return probs.float()


def _tokens(probs, indices):
    return _torch.empty(probs.size(0) if indices is None else indices.size(0), dtype=_torch.int32, device=probs.device)


@_ours()
def top_p_sampling_from_probs(probs, top_p, indices=None, deterministic=True, generator=None, check_nan=False):
    probs = _checked(probs, check_nan)
    tokens = _tokens(probs, indices)
    _ops.top_p_sampling_from_probs(probs, tokens, indices, *_parameter(top_p, _torch.float32), deterministic, generator)
    return tokens


@_ours()
def min_p_sampling_from_probs(probs, min_p, indices=None, deterministic=True, generator=None, check_nan=False):
    probs = _checked(probs, check_nan)
    tokens = _tokens(probs, indices)
    _ops.min_p_sampling_from_probs(probs, tokens, indices, *_parameter(min_p, _torch.float32), deterministic, generator)
    return tokens


@_ours("musa_top_k_top_p_sampling_from_probs")
def top_k_top_p_sampling_from_probs(probs, top_k, top_p, indices=None, filter_apply_order="top_k_first", deterministic=True,
                                    generator=None, check_nan=False):
    if filter_apply_order not in ("top_k_first", "joint"):
        raise ValueError(f"filter_apply_order: {filter_apply_order!r}, expected 'top_k_first' or 'joint'")
    probs = _checked(probs, check_nan)
    tokens = _tokens(probs, indices)
    op = _ops.musa_top_k_top_p_sampling_from_probs if filter_apply_order == "joint" else _ops._top_k_first_sampling_from_probs
    op(probs, tokens, indices, *_parameter(top_k, _torch.int32), *_parameter(top_p, _torch.float32), deterministic, generator)
    return tokens


def _renorm(name, dtype, *more_names):
    def function(probs, value):
        probs = probs.float()
        out = _torch.empty_like(probs)
        getattr(_ops, name)(probs, out, *_parameter(value, dtype))
        return out

    for alias in (name, *more_names):
        parameter = "top_k" if "top_k" in name else "top_p"
        first = "logits" if "logits" in name else "probs"
        scope = {"function": function}
        exec(f"def {alias}({first}, {parameter}):\n    return function({first}, {parameter})", scope)
        _OURS[alias] = (scope[alias], (name,))


_renorm("top_k_renorm_probs", _torch.int32, "top_k_renorm_prob")
_renorm("top_p_renorm_probs", _torch.float32, "top_p_renorm_prob")
_renorm("top_k_mask_logits", _torch.int32)


def _signature(parameters):
    scope = {}
    exec(f"def f({parameters}): pass", scope)
    return _inspect.signature(scope["f"])


def _generic(module, name, parameters):
    """The operator of that name, called with the parameters in their order; or an error when called."""
    signature = _signature(parameters)
    op = getattr(_ops, name).default if _has(name) else None
    if op is not None and len(op._schema.arguments) != len(signature.parameters):
        op = None

    def function(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        if op is None:
            raise NotImplementedError(f"sgl_kernel.{module}.{name}: musaic has no such operator yet")
        bound.apply_defaults()
        return op(*bound.args)

    function.__signature__ = signature
    function.__name__ = function.__qualname__ = name
    return function, op is not None


MODULES, _IMPLEMENTED = {}, set()
for _module, _functions in _table.MODULES.items():
    MODULES[_module] = {}
    for _name, _parameters in _functions.items():
        if _name in _OURS and all(map(_has, _OURS[_name][1])):
            _function, _there = _OURS[_name][0], True
        else:
            _function, _there = _generic(_module, _name, _parameters)
        MODULES[_module][_name] = _function
        globals()[_name] = _function
        if _there:
            _IMPLEMENTED.add(_name)


def implemented():
    """The names that do something."""
    return sorted(_IMPLEMENTED)


def missing():
    """The names that raise when called."""
    return sorted({n for m in MODULES.values() for n in m} - _IMPLEMENTED)
