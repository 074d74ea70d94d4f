"""What the packages promise: metadata, the drop-in's modules and names, the overlay."""

import email
import inspect
import os
import pathlib
import subprocess
import sys
import tomllib

import pytest

TREE = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TREE / "bindings/python"), str(TREE / "packaging/sgl_kernel")])}


def python(code, **environment):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**ENVIRONMENT, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize("project", [TREE, TREE / "packaging/sgl_kernel"], ids=["musaic", "sgl_kernel"])
def test_metadata_pulls_no_torch(project, tmp_path, monkeypatch):
    from scikit_build_core import build

    monkeypatch.chdir(project)
    info = build.prepare_metadata_for_build_wheel(str(tmp_path))
    metadata = email.message_from_string((tmp_path / info / "METADATA").read_text())
    needed = metadata.get_all("Requires-Dist") or []
    always = [r for r in needed if "extra ==" not in r]
    assert always == ([] if project == TREE else ["musaic==0.1.0"])
    for requirement in needed:
        if "torch" in requirement:
            assert 'extra == "musa"' in requirement
    version = (TREE / "include/musaic/version.h").read_text().split('MUSAIC_VERSION "')[1].split('"')[0]
    assert metadata["Version"] == version


def test_extras_for_musa_alone():
    project = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    assert "dependencies" not in project and list(project["optional-dependencies"]) == ["musa"]


CHECK_NAMES = """
import importlib, inspect, sgl_kernel
from musaic import sgl, sgl_table
for module, functions in sgl_table.MODULES.items():
    m = importlib.import_module("sgl_kernel." + module)
    for name, parameters in functions.items():
        scope = {}
        exec(f"def f({parameters}): pass", scope)
        got = inspect.signature(getattr(m, name))
        assert str(got) == str(inspect.signature(scope["f"])), (module, name, str(got))
        if name not in sgl_table.MODULE_ONLY:
            assert callable(getattr(sgl_kernel, name)), name
assert "top_p_sampling_from_probs" not in vars(sgl_kernel)
print(len(sgl.implemented()), len(sgl.missing()))
"""


def test_every_name_of_upstream_with_its_parameters():
    (line,) = python(CHECK_NAMES)
    implemented, missing = map(int, line.split())
    assert implemented >= 16
    print(f"{implemented} of upstream's names are implemented, {missing} raise when called")


def test_a_missing_name_raises_on_call():
    code = """
import sgl_kernel, torch
from musaic import sgl
for name in sgl.missing()[:3]:
    f = getattr(sgl, name)
    n = len(__import__("inspect").signature(f).parameters)
    try: f(*[0] * n)
    except NotImplementedError as e: assert name in str(e)
    else: raise SystemExit(name)
from sgl_kernel.elementwise import rmsnorm, silu_and_mul
x = torch.randn(3, 8)
assert torch.allclose(rmsnorm(x, torch.ones(8)), x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6), atol=1e-6)
assert torch.allclose(silu_and_mul(x), torch.nn.functional.silu(x[:, :4]) * x[:, 4:], atol=1e-6)
from sgl_kernel.musa import top_k_top_p_sampling_from_probs as draw, min_p_sampling_from_probs
p = torch.softmax(torch.randn(4, 50), -1)
for order in ("joint", "top_k_first"):
    a = draw(p, torch.full((4,), 3), 0.9, filter_apply_order=order, generator=torch.Generator().manual_seed(1))
    assert a.dtype == torch.int32 and all(t in p[i].topk(3).indices for i, t in enumerate(a.tolist()))
assert (min_p_sampling_from_probs(p, 1.0) == p.argmax(-1)).all()
for bad in (lambda: draw(p, 3, 0.9, filter_apply_order="other"), lambda: min_p_sampling_from_probs(p * float("nan"), 0.1, check_nan=True)):
    try: bad()
    except ValueError: pass
    else: raise SystemExit("no error")
print("ok")
"""
    assert python(code) == ["ok"]


def make_upstream(folder):
    """A stand-in for an installed sglang-kernel: its names, with a function that says so."""
    package = folder / "sgl_kernel"
    package.mkdir(parents=True)
    (package / "elementwise.py").write_text("def rmsnorm(*a, **k): return 'theirs'\ndef bmm_fp8(*a): return 'theirs'\n")
    (package / "late.py").write_text("from sgl_kernel.elementwise import rmsnorm\n")
    (package / "__init__.py").write_text(
        "import torch\nL = torch.library.Library('sgl_kernel', 'DEF')\nL.define('rmsnorm(Tensor! output, Tensor input) -> ()')\n"
        "from sgl_kernel.elementwise import rmsnorm, bmm_fp8\n__version__ = 'stand-in'\n"
    )
    return folder


OVERLAY = """
import musaic.sglang as overlay
overlay.install()
import sgl_kernel, torch, sgl_kernel.late
x = torch.ones(2, 4)
def who(f, *a):
    r = f(*a)
    return r if isinstance(r, str) else "ours"
print(who(sgl_kernel.rmsnorm, x, x[0]), who(sgl_kernel.elementwise.rmsnorm, x, x[0]), who(sgl_kernel.late.rmsnorm, x, x[0]), sgl_kernel.bmm_fp8())
lines = []
overlay.status(lines.append)
print([l.split()[1] for l in lines if l.split()[0] in ("rmsnorm", "bmm_fp8", "dispose")])
overlay.unpatch(sgl_kernel)
print(sgl_kernel.rmsnorm(x, x[0]))
"""


def test_overlay(tmp_path):
    upstream = str(make_upstream(tmp_path / "site"))
    path = os.pathsep.join([str(TREE / "bindings/python"), upstream])
    out = python(OVERLAY, PYTHONPATH=path)
    assert out == [
        "ours ours ours theirs", "['sgl_kernel', 'nobody', 'musaic']", "theirs"]
    out = python(OVERLAY, PYTHONPATH=path, MUSAIC_SGLANG="0")
    assert out[0] == "theirs theirs theirs theirs"


def test_enable_and_disable_write_and_remove_one_file(tmp_path, monkeypatch, capsys):
    from musaic import sglang

    monkeypatch.setattr(sglang, "_place", lambda: tmp_path / sglang.FILE)
    assert sglang.main(["enable"]) == 0 and sglang.enabled()
    assert (tmp_path / sglang.FILE).read_text().startswith("import musaic.sglang")
    assert sglang.main(["disable"]) == 0 and not sglang.enabled() and sglang.main(["disable"]) == 0
    assert sglang.main(["other"]) == 2
