"""torch.device("musa") without a card: simulated mp_31, not hardware. For tests; import it by name.

Memory is the executor's, kernels run on it with every check on; a finding of it is an error at the next wait. All other
operators of torch run on the host, through copies.
"""

import importlib.util
import sys
import types

import torch

DESCRIPTION = "simulated mp_31, not hardware"

if importlib.util.find_spec("torch_musa") is not None:
    raise ImportError("musaic.simulated_musa: torch_musa is installed here; the simulated device would stand in its place")

from . import torch as _musaic_torch  # noqa: E402  the operators come first

_path = _musaic_torch.library.with_name(f"libmusaic_simulated_musa-{torch.__version__}.so")
if not _path.exists():
    raise ImportError(f"musaic.simulated_musa: not at {_path}; make it with: python -m musaic.build_torch --simulated-musa")
torch.utils.rename_privateuse1_backend("musa")
torch.ops.load_library(str(_path))


def launch_count():
    """Kernels that the executor has been given so far."""
    return torch.ops.musaic_simulated.launch_count()


def _module():
    m = types.ModuleType("torch.musa", DESCRIPTION)
    m.is_available = lambda: True
    m.is_initialized = lambda: True
    m._is_in_bad_fork = lambda: False
    m.init = m._lazy_init = lambda: None
    m.device_count = lambda: 2
    m.current_device = torch.ops.musaic_simulated.current_device
    m.set_device = lambda d: torch.ops.musaic_simulated.set_device(torch.device(d).index if not isinstance(d, int) else d)
    m.synchronize = lambda device=None: torch.ops.musaic_simulated.synchronize(
        m.current_device() if device is None else torch.device("musa", device).index if isinstance(device, int) else torch.device(device).index or 0
    )
    m.get_device_name = lambda device=None: DESCRIPTION
    m.get_device_capability = lambda device=None: (3, 1)
    m.manual_seed = m.manual_seed_all = lambda seed: None
    m.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    return m


musa = _module()
torch._register_device_module("musa", musa)
sys.modules["torch.musa"] = musa
torch.utils.generate_methods_for_privateuse1_backend()
