"""Builds musaic for Moore Threads GPUs with torch_musa's extension builder: python packaging/musa/setup_musa.py bdist_wheel

Two steps: CMake compiles the library for the target (its units come from ops/list.inc, its flags from
backends/musa/recipe.flags), then torch_musa's builder compiles the torch adapter and links it with the library. Nothing is
fetched. Environment: MTGPU_TARGET (mp_31, the default, or mp_22), MUSA_HOME, MAX_JOBS.

Written from public documentation; it has never run with the real SDK or torch_musa.
"""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings" / "python" / "musaic"
TARGETS = ("mp_31", "mp_22")
ADAPTER = ("adapter", "musaic_ops", "sgl_kernel_ops", "vendor_musa")


def target():
    name = os.environ.get("MTGPU_TARGET", "mp_31")
    if name not in TARGETS:
        raise SystemExit(f"setup_musa.py: MTGPU_TARGET: {name}, expected one of {', '.join(TARGETS)}")
    return name


def library_commands(build):
    """What makes the library for the target."""
    return [
        ["cmake", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=ON", "-DMUSAIC_MUSA=ON",
         f"-DMUSAIC_MUSA_TARGETS={target()}", "-DMUSAIC_BUILD_CLI=OFF", "-DMUSAIC_BUILD_SIMT=OFF", "-DMUSAIC_INSTALL=OFF"],
        ["cmake", "--build", str(build), "--target", "musaic", "--parallel", os.environ.get("MAX_JOBS", str(os.cpu_count() or 1))],
    ]


def extension_arguments(build):
    """The arguments of MUSAExtension."""
    return {
        "name": "musaic._torch_musa",
        "sources": [f"bindings/torch/{unit}.cc" for unit in ADAPTER],
        "include_dirs": [str(ROOT), str(ROOT / "include"), str(pathlib.Path(build) / "include")],
        "library_dirs": [str(build)],
        "libraries": ["musaic"],
        "extra_compile_args": {"cxx": ["-std=c++17", "-O2"], "mcc": []},
        "extra_link_args": ["-Wl,-rpath,$ORIGIN/lib"],
    }


def version():
    text = (ROOT / "include" / "musaic" / "version.h").read_text()
    return text.split('MUSAIC_VERSION "')[1].split('"')[0]


def main():
    from setuptools import setup
    from torch_musa.utils.musa_extension import BuildExtension, MUSAExtension

    os.chdir(ROOT)
    build = ROOT / "build" / f"musa-{target()}"

    class Build(BuildExtension):
        def run(self):
            for command in library_commands(build):
                subprocess.run(command, check=True)
            lib = pathlib.Path(self.build_lib) / "musaic" / "lib"
            lib.mkdir(parents=True, exist_ok=True)
            for path in build.glob("libmusaic.so*"):
                shutil.copy2(path, lib / path.name)
            super().run()

    setup(
        name="musaic",
        version=version(),
        packages=["musaic"],
        package_dir={"musaic": str(PACKAGE.relative_to(ROOT))},
        ext_modules=[MUSAExtension(**extension_arguments(build))],
        cmdclass={"build_ext": Build},
        python_requires=">=3.10",
    )


if __name__ == "__main__":
    sys.exit(main())
