"""Compiles each public, device and operator header alone as C++17: headers_cxx17.py BUILD COMPILER

A header must bring what it needs, and must stay within C++17: the compilers of some GPU toolkits know no more. BUILD is
a configured build folder, for the generated headers. The C header is compiled as C11.
"""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

build, compiler = sys.argv[1:]
FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-Wno-psabi", "-Wno-unknown-warning-option",
         "-Wno-pragma-once-outside-header", "-ffp-contract=off", "-Iinclude", f"-I{build}/include"]
INTERNAL = ["-I.", "-Ibackends/cpu", "-DMUSAIC_TARGET=cpu_baseline"]


def command(header):
    if header.name == "c_api.h":
        return [compiler, "-x", "c", "-std=c11", *FLAGS, "-include", str(header), os.devnull]
    extra = [] if header.parts[0] == "include" else list(INTERNAL)
    if header.name in ("row.h", "core.h"):
        extra += ["-include", "backends/cpu/launch.h"]  # how a row program is run comes from the backend
    return [compiler, "-x", "c++", "-std=c++17", *FLAGS, *extra, "-include", str(header), os.devnull]


def compile_one(header):
    done = subprocess.run(command(header), capture_output=True, text=True)
    return header, done.returncode, done.stderr


# What only a GPU's compiler reads: nvcc and mcc compile these as C++17 with the kernels that include them.
GPU_ONLY = {"gpu.h", "lanes8.h", "block_group.h", "block_search.h", "row_search.h", "row_kernel.h"}
headers = sorted(p for folder in ("include", "device", "ops") for p in pathlib.Path(folder).rglob("*.h")
                 if p.name not in GPU_ONLY)
failed = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for header, status, text in pool.map(compile_one, headers):
        if status:
            failed += 1
            print(f"{header} does not compile as C++17 with {compiler}:\n{text}")
print(f"{len(headers)} headers as C++17 with {compiler}: {failed} failed")
sys.exit(1 if failed or not headers else 0)
