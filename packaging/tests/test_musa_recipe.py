"""The MUSA package without a card, an SDK or torch_musa: a dry run."""

import importlib.util
import os
import pathlib
import re
import shlex
import subprocess
import tomllib

import pytest

TREE = pathlib.Path(__file__).resolve().parents[2]
MUSA = TREE / "packaging/musa"


def setup_musa():
    spec = importlib.util.spec_from_file_location("setup_musa", MUSA / "setup_musa.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_vendor_file_compiles_against_declarations():
    import torch
    from musaic import _paths, build_torch

    flags, _ = build_torch._flags(torch)
    flags = [f for f in flags if not f.startswith("-std=")]
    # As torch_musa's builder would, but for the standard that this torch's headers need.
    standard = next(f for f in build_torch._flags(torch)[0] if f.startswith("-std="))
    command = [*shlex.split(os.environ.get("CXX", "c++")), "-fsyntax-only", standard, "-Wall", "-Werror", *flags, f"-I{MUSA / 'standin'}",
               *[f"-I{d}" for d in _paths.include_directories()], TREE / "bindings/torch/vendor_musa.cc"]
    command = [c for c in command if c != "ccache"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_sources_exist_and_nothing_is_fetched():
    m = setup_musa()
    arguments = m.extension_arguments("build/musa")
    assert all((TREE / s).is_file() for s in arguments["sources"])
    text = (MUSA / "setup_musa.py").read_text() + (MUSA / "pyproject_musa.toml").read_text()
    assert not re.search(r"https?://|git clone|FetchContent|urlopen", text)
    assert "FetchContent" not in (TREE / "CMakeLists.txt").read_text()


@pytest.mark.parametrize("value,ok", [("mp_31", True), ("mp_22", True), ("mp_99", False)])
def test_target(monkeypatch, value, ok):
    monkeypatch.setenv("MTGPU_TARGET", value)
    m = setup_musa()
    if not ok:
        with pytest.raises(SystemExit, match="MTGPU_TARGET: mp_99"):
            m.target()
    else:
        assert f"-DMUSAIC_MUSA_TARGETS={value}" in m.library_commands("b")[0]


def test_pins_are_the_same_and_of_musa_alone():
    a = tomllib.loads((TREE / "pyproject.toml").read_text())["project"]
    b = tomllib.loads((MUSA / "pyproject_musa.toml").read_text())["project"]
    assert a["optional-dependencies"] == b["optional-dependencies"] and "dependencies" not in b
    assert setup_musa().version() in (TREE / "include/musaic/version.h").read_text()


# Rules of torchada's source rewriting, as its public tables and reports name them: what each would look for.
REWRITES = {
    "inline assembly becomes dead code": r"\basm\s+volatile|\b__asm__\s+volatile",
    "tests of the architecture": r"__CUDA_ARCH__\s*(>=|<|>|==)",
    "runtime names": r"\bcuda[A-Z]\w+",
    "driver names": r"\bCU(device|context|stream|function|module|result)\b",
    "headers of CUDA": r"#\s*include\s*[<\"](cuda|cub/|thrust/|cutlass|cooperative_groups|curand|cublas)",
    "headers of torch's CUDA": r"#\s*include\s*[<\"](ATen/cuda|c10/cuda|torch/csrc/cuda)",
    "torch's CUDA names": r"\b(at|c10)::cuda::",
    "number types": r"\b(__nv_(bfloat16|fp8)\w*|nv_bfloat16\w*)\b",
    "libraries": r"\b(cublas|curand|nccl|cusparse|cudnn)\w*\b",
    "dispatch keys": r"\btorch::kCUDA\b|\bat::kCUDA\b",
}


def musa_sources():
    """What the MUSA build gives to mcc or to torch's extension builder."""
    files = [TREE / s for s in setup_musa().extension_arguments("b")["sources"]]
    files += [TREE / "bindings/torch/adapter.h", TREE / "bindings/torch/vendor.h"]
    for pattern in ("ops/*/row.h", "ops/*/gpu.h", "ops/*/args.h", "device/*.h", "include/musaic/*.h", "backends/musa/*.h", "backends/musa/*.cc"):
        files += TREE.glob(pattern)
    return files


@pytest.mark.parametrize("rule", REWRITES)
def test_torchada_would_change_nothing(rule):
    files = musa_sources()
    assert len(files) > 30
    hits = []
    for path in files:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            code = line.split("//")[0]
            if re.search(REWRITES[rule], code):
                hits.append(f"{path.relative_to(TREE)}:{number}: {line.strip()}")
    assert hits == []


def test_the_rules_find_what_they_should():
    examples = ['asm volatile("x");', "#if __CUDA_ARCH__ >= 800", "cudaMalloc(&p, 1);", "CUdevice d;", "#include <cuda_runtime.h>",
                "#include <ATen/cuda/CUDAContext.h>", "at::cuda::getCurrentCUDAStream()", "__nv_bfloat16 x;", "cublasCreate(&h);",
                "m.impl(name, torch::kCUDA, f);"]
    for (rule, pattern), example in zip(REWRITES.items(), examples, strict=True):
        assert re.search(pattern, example), rule
