"""Compiles the torch operators against the torch of this Python: python -m musaic.build_torch [--simulated-musa]

The wheel of musaic holds the library and the adapter's sources, but nothing that is tied to a version of torch.
"""

import argparse
import concurrent.futures
import os
import pathlib
import shlex
import subprocess
import sys

from . import _paths

COMMON = ["adapter", "musaic_ops", "sgl_kernel_ops"]


def extension_name(torch_version):
    return f"libmusaic_torch-{torch_version}.so"


def _flags(torch):
    root = pathlib.Path(torch.__file__).parent
    include = [f"-isystem{root / 'include'}", f"-isystem{root / 'include/torch/csrc/api/include'}"]
    compile_flags = ["-std=c++20" if torch_version(torch) >= (2, 12) else "-std=c++17", "-O2", "-fPIC", "-pthread",
                     f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    return compile_flags + include, ["-shared", f"-L{root / 'lib'}", "-ltorch_cpu", "-ltorch", "-lc10",
                                     f"-Wl,-rpath,{root / 'lib'}"]


def torch_version(torch):
    return tuple(int(p) for p in torch.__version__.split("+")[0].split(".")[:2])


def _vendor(torch):
    """(units, compile flags, link flags) of the vendor's torch, beyond the CPU's."""
    if torch.version.cuda or torch.version.hip:
        from torch.utils.cpp_extension import CUDA_HOME, ROCM_HOME
        home = ROCM_HOME if torch.version.hip else CUDA_HOME
        if home is None:
            raise RuntimeError("this torch is one for a GPU, but its toolkit's headers were not found: set CUDA_HOME or ROCM_HOME")
        lib = "hip" if torch.version.hip else "cuda"
        # The first two are for torch's own headers.
        flags = ["-DUSE_ROCM=1", "-D__HIP_PLATFORM_AMD__=1"] if torch.version.hip else []
        vendor, device = ("rocm", "kRocm") if torch.version.hip else ("cuda", "kCuda")
        flags += [f'-DMUSAIC_TORCH_VENDOR="{vendor}"', f"-DMUSAIC_TORCH_DEVICE={device}"]
        return ["vendor_cuda"], [*flags, f"-isystem{home}/include"], [f"-ltorch_{lib}", f"-lc10_{lib}"]
    return [], [], []


def build(output, simulated_musa=False, jobs=os.cpu_count() or 1, library=None, verbose=False, headers=()):
    """Writes the extension (and the simulated device's) into `output`; returns their paths."""
    import torch

    output = pathlib.Path(output)
    output.mkdir(parents=True, exist_ok=True)
    sources = _paths.adapter_sources()
    library = pathlib.Path(library or _paths.library())
    compile_flags, link_flags = _flags(torch)
    units, vendor_compile, vendor_link = _vendor(torch)
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    include = [f"-I{d}" for d in (*headers, *_paths.include_directories())]

    def run(*command):
        if verbose:
            print(shlex.join(map(str, command)), flush=True)
        subprocess.run(list(map(str, command)), check=True)

    def compile_unit(unit):
        target = output / f"{unit}.o"
        run(*compiler, "-c", sources / f"{unit}.cc", "-o", target, *compile_flags, *vendor_compile, *include)
        return target

    def link(target, objects, *more):
        new = target.with_suffix(".new")
        run(*compiler, *objects, "-o", new, *more, *link_flags, *vendor_link, f"-L{library.parent}", "-lmusaic",
            f"-Wl,-rpath,{library.parent}", "-Wl,-rpath,$ORIGIN", "-Wl,--no-undefined")
        new.replace(target)
        return target

    wanted = COMMON + units + (["simulated_musa"] if simulated_musa else [])
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        objects = dict(zip(wanted, pool.map(compile_unit, wanted)))
    name = extension_name(torch.__version__)
    built = [link(output / name, [objects[u] for u in COMMON + units], f"-Wl,-soname,{name}")]
    if simulated_musa:
        built.append(link(output / f"libmusaic_simulated_musa-{torch.__version__}.so", [objects["simulated_musa"]], built[0]))
    for o in objects.values():
        o.unlink()
    return built


def main():
    parser = argparse.ArgumentParser(prog="python -m musaic.build_torch", description=__doc__.splitlines()[0])
    parser.add_argument("--output", default=None, help="folder (default: where the package looks)")
    parser.add_argument("--simulated-musa", action="store_true", help="also the simulated MUSA device, for tests")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        print("musaic.build_torch: torch is not installed in this Python", file=sys.stderr)
        return 1
    for path in build(options.output or _paths.extension_folder(), options.simulated_musa, options.jobs,
                      verbose=options.verbose):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
