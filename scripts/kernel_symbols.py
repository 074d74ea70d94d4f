"""Looks for code of one instruction set that the linker could use for another: kernel_symbols.py BUILD

The CPU kernels are compiled once per instruction set, each in a namespace of its own. A weak symbol outside that
namespace (an inline function or a template that was not inlined) is merged by the linker over all sets, so a processor
could be handed instructions that it lacks. Reads the objects of an optimised build with nm.
"""

import pathlib
import re
import subprocess
import sys

build = pathlib.Path(sys.argv[1])
# Weak, but no code.
HARMLESS = re.compile(r"^(DW\.ref\.|(vtable|typeinfo)( name)? for )")
breaches = objects = 0
for folder in sorted(build.glob("CMakeFiles/musaic_cpu_*.dir")):
    path = folder.name.removeprefix("musaic_cpu_").removesuffix(".dir")
    for unit in sorted(folder.rglob("*.o")):
        objects += 1
        symbols = subprocess.run(["nm", "-C", "--defined-only", unit], check=True, capture_output=True, text=True).stdout
        for line in symbols.splitlines():
            kind, name = line[17:18], line[19:]
            if kind in "WVu" and f"musaic::cpu_{path}::" not in name and not HARMLESS.match(name):
                print(f"{unit.relative_to(build)}: weak, and not in cpu_{path}: {name}")
                breaches += 1
print(f"{objects} kernel objects: {breaches} symbols that another instruction set could get")
sys.exit(1 if breaches or not objects else 0)
