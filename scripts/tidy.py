"""Runs clang-tidy: tidy.py CLANG_TIDY BUILD (--all | FILE...)

BUILD is a configured build folder with compile_commands.json. A unit is looked at if it is one of the files, or if a
header among the files lies in its folder; of the kernels' units, which are compiled once per instruction set, one. The
static analyzer, most of the time, runs with --all only.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

clang_tidy, build, *names = sys.argv[1:]
root = pathlib.Path.cwd()
entries = {}  # source -> folder that its headers lie in
for entry in json.loads((pathlib.Path(build) / "compile_commands.json").read_text()):
    file = pathlib.Path(entry["file"])
    generated = pathlib.Path(build).resolve() / "cpu"
    if file.parent == generated:  # cpu/NAME.cc stands for ops/NAME/row.h
        entries[file] = root / "ops" / file.stem
    else:
        entries[file] = file.parent

checks = [] if names == ["--all"] else ["--checks=-clang-analyzer-*"]
if names == ["--all"]:
    units = sorted(entries)
else:
    changed = {root / name for name in names if (root / name).suffix in (".cc", ".h", ".inc")}
    folders = {file.parent for file in changed if file.suffix != ".cc"}
    units = sorted(unit for unit, folder in entries.items() if unit in changed or folder in folders)


def tidy(unit):
    done = subprocess.run([clang_tidy, "-p", build, "--quiet", *checks, str(unit)], capture_output=True, text=True)
    return unit, done.returncode, done.stdout + (done.stderr if done.returncode else "")


failed = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for unit, status, text in pool.map(tidy, units):
        if status:
            failed += 1
            print(f"{os.path.relpath(unit)}:\n{text}")
print(f"clang-tidy on {len(units)} of {len(entries)} units: {failed} failed")
sys.exit(1 if failed else 0)
