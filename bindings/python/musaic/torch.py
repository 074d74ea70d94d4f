"""The operators on torch tensors: importing this registers torch.ops.musaic.* and torch.ops.sgl_kernel.*.

    import torch, musaic.torch
    torch.ops.musaic.rmsnorm(out, x, weight, 1e-6)

The compiled adapter belongs to one version of torch; `python -m musaic.build_torch` makes it.
"""

import torch as _torch

from . import _paths
from .build_torch import extension_name as _extension_name


def _load():
    path = _paths.extension_folder() / _extension_name(_torch.__version__)
    if not path.exists():
        raise ImportError(
            f"musaic.torch: there are no operators for torch {_torch.__version__} at {path}; make them with: python -m musaic.build_torch"
        )
    _torch.ops.load_library(str(path))
    return path


library = _load()


def operators():
    """Names of the operators in torch.ops.musaic."""
    return sorted(
        n.split("::")[1] for n in _torch._C._dispatch_get_all_op_names() if n.startswith("musaic::") and not n.startswith("musaic::_")
    )


def aliases():
    """Names of the operators in torch.ops.sgl_kernel, whoever registered them."""
    return sorted(n.split("::")[1] for n in _torch._C._dispatch_get_all_op_names() if n.startswith("sgl_kernel::"))
