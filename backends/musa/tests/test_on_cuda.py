"""One unit of the MUSA sources through nvcc's front end, by the header that maps MUSA's names to CUDA's. The programs
musa_on_cuda_mp31 and _mp22 (MUSAIC_MUSA_ON_CUDA=ON) compile all of them, and run on an NVIDIA GPU."""

import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import recipe  # noqa: E402  pylint: disable=wrong-import-position


def main():
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("not run: no nvcc")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "rmsnorm.cu"
        source.write_text(recipe.unit_source("rmsnorm"))
        includes = [f"-I{p}" for p in (HERE.parent / "on_cuda", HERE.parent, recipe.ROOT, recipe.ROOT / "include")]
        listing = pathlib.Path(folder) / "rmsnorm.ptx"
        done = subprocess.run([nvcc, "-std=c++17", "-arch=sm_90", "--fmad=false", "--expt-relaxed-constexpr", *includes,
                               "-DMUSAIC_TARGET=musa", "-DMUSAIC_MUSA_HARDWARE_WARP=32", "-ptx", "-o", str(listing), str(source)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            print(done.stdout + done.stderr)
            return 1
        kernels = listing.read_text().count(".visible .entry ") + listing.read_text().count(".weak .entry ")
        print(f"MUSA sources through nvcc for sm_90: {kernels} kernels of rmsnorm")
        return 0 if kernels == 6 else 1


if __name__ == "__main__":
    sys.exit(main())
