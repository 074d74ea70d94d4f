"""Compiles every unit of a configured build without making code: syntax_only.py BUILD

Runs the commands of BUILD/compile_commands.json with -fsyntax-only, one per core, all flags and warnings as they are.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys


def command(entry):
    words = shlex.split(entry["command"])
    while os.path.basename(words[0]) in ("ccache", "timed_compile"):
        words = words[1:]
    out = words.index("-o")
    del words[out : out + 2]
    words[words.index("-c")] = "-fsyntax-only"
    return words


def compile_one(entry):
    done = subprocess.run(command(entry), cwd=entry["directory"], capture_output=True, text=True)
    return entry["file"], done.returncode, done.stderr


entries = json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text())
failed = 0
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    for file, status, text in pool.map(compile_one, entries):
        if status:
            failed += 1
            print(f"{file}:\n{text}")
compiler = os.path.basename(command(entries[0])[0]) if entries else "no compiler"
print(f"{len(entries)} units with {compiler}: {failed} failed")
sys.exit(1 if failed or not entries else 0)
