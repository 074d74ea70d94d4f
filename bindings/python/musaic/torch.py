"""The operators on torch tensors: importing this registers torch.ops.musaic.* and torch.ops.sgl_kernel.*.

    import torch, musaic.torch
    torch.ops.musaic.rmsnorm(out, x, weight, 1e-6)

The compiled adapter belongs to one version of torch; `python -m musaic.build_torch` makes it.
"""

import importlib.util as _util
import os as _os
import pathlib as _pathlib

import torch as _torch

from . import _paths
from .build_torch import extension_name as _extension_name


def _upstream_is_installed():
    """Whether a package sgl_kernel other than ours would define torch.ops.sgl_kernel."""
    spec = _util.find_spec("sgl_kernel")
    return bool(spec and spec.origin and not (_pathlib.Path(spec.origin).parent / "_musaic.py").exists())


def _load():
    if _upstream_is_installed():
        _os.environ["MUSAIC_KEEP_SGL_KERNEL"] = "1"
    for path in _pathlib.Path(__file__).parent.glob("_torch_musa*.so"):  # what packaging/musa builds
        import torch_musa  # noqa: F401  gives the device before the operators

        _torch.ops.load_library(str(path))
        return path
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
