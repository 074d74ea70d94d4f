#!/usr/bin/env python3
"""The recipe of the MUSA build: which units there are, with which flags each is compiled, and which kernels must come out.

The real build (backend.cmake), verify-sdk and the dry run all go through this file and recipe.flags.

    recipe.py units                         row operators that the MUSA backend compiles, one a line
    recipe.py flags --target mp_31          the flags
    recipe.py write UNIT FILE               writes the unit's source
    recipe.py build --mcc MCC --target mp_31 --out FOLDER --include BUILD/include [--syntax-only] [--resource-usage]
                                            compiles all units and looks for their kernels in the objects
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TARGETS = ("mp_21", "mp_22", "mp_31")
STANDIN = HERE / "standin" / "mcc"


def flags(target):
    """The flags of recipe.flags for a target, in order."""
    if target not in TARGETS:
        raise SystemExit(f"recipe.py: target {target}: one of {', '.join(TARGETS)}")
    result = []
    for line in (HERE / "recipe.flags").read_text().splitlines():
        line = line.split("#", 1)[0].strip()
        only, found, rest = line.partition(": ")
        if found and only in TARGETS:
            line = rest if only == target else ""
        result += line.replace("@target@", target).split()
    return result


def read_instances():
    """{folder: [program, ...]} of instances.txt."""
    programs = {}
    for line in (HERE / "instances.txt").read_text().splitlines():
        line = line.split("#", 1)[0].strip()
        if line:
            folder, program = line.split(None, 1)
            programs.setdefault(folder, []).append(program)
    return programs


def units():
    """Folders of ops/ with a row program, in the order of ops/list.inc."""
    text = (ROOT / "ops" / "list.inc").read_text()
    folders = dict.fromkeys(re.findall(r"^MUSAIC_OP\([a-z0-9_]+, [A-Za-z0-9]+, ([a-z0-9_]+)", text, re.M))
    return [folder for folder in folders if (ROOT / "ops" / folder / "row.h").is_file()]


def unit_source(folder, programs=None):
    """What is compiled for an operator: the backend, the row program, and an explicit instance of every kernel."""
    lines = ['#include "backends/musa/launch.h"', f'#include "ops/{folder}/row.h"']
    instances = []
    for program in read_instances().get(folder, []) if programs is None else programs:
        types = ("float", "Half", "BFloat16") if re.search(r"\bT\b", program) else ("",)
        instances += ["MUSAIC_ROW_KERNELS(" + re.sub(r"\bT\b", t, program) + ")" for t in types]
    if instances:
        lines += ["", "namespace musaic::MUSAIC_TARGET {", *instances, "}  // namespace musaic::MUSAIC_TARGET"]
    return "\n".join(lines) + "\n"


def write_if_changed(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def demangle(names):
    tool = shutil.which("c++filt") or shutil.which("llvm-cxxfilt") or sys.exit("recipe.py: needs c++filt (binutils)")
    done = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def kernels_in(path):
    """Readable names of the kernels in the section .mt_fatbin of an object."""
    image = f"{path}.mt_fatbin"
    subprocess.run(["objcopy", "-O", "binary", "--only-section=.mt_fatbin", "--set-section-flags", ".mt_fatbin=alloc",
                    str(path), image], check=True)
    data = pathlib.Path(image).read_bytes() if os.path.exists(image) else b""
    pathlib.Path(image).unlink(missing_ok=True)
    names = re.findall(rb"\.entry\s+([\w$]+)\(", data) or re.findall(rb"_Z[\w$]+", data)
    return sorted(set(demangle(sorted({n.decode() for n in names})))) if names else []


def kernels_of_host(path):
    """Readable names of the kernels that the host code of an object can launch, by their stubs."""
    symbols = subprocess.run(["nm", "--defined-only", "-P", str(path)], capture_output=True, text=True, check=True).stdout
    stubs = [line.split()[0] for line in symbols.splitlines() if "__device_stub__" in line]
    return sorted(name.replace("__device_stub__", "") for name in demangle(stubs)) if stubs else []


def check_object(path, folder):
    """What is wrong with an object: an empty string, or the kernels that it should have and lacks."""
    wanted, found = kernels_of_host(path), set(kernels_in(path))
    if not wanted:
        return f"{folder}: the object has no kernel at all"
    if not found:
        return f"{folder}: no kernel name can be read in .mt_fatbin: the section is absent, empty or compressed"
    missing = [name for name in wanted if name not in found]
    return f"{folder}: not in the device code: " + "; ".join(missing) if missing else ""


def programs_in(message):
    """Programs of the kernels that the stand-in calls instantiated by their launch alone."""
    names = re.findall(r"rows_kernel<\d+, (.*?) ?>\(", message)
    return list(dict.fromkeys(name.replace("musaic::musa::", "") for name in names))


class Unit:
    """One compile of an operator: output text, object, errors."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        self.note = ""
        out = pathlib.Path(options.out) / options.target
        out.mkdir(parents=True, exist_ok=True)
        self.source, self.object = out / f"{folder}.mu", out / f"{folder}.o"
        self.error = ""

    def compile(self, text):
        write_if_changed(self.source, text)
        o = self.options
        mode = ["-fsyntax-only"] if o.syntax_only else ["-c", "-o", str(self.object)]
        include = [f"-I{p}" for p in (ROOT / "backends" / "musa", ROOT, ROOT / "include", *o.include)]
        extra = ["-resource-usage"] if o.resource_usage else []
        command = [o.mcc, *flags(o.target), *include, *extra, *mode, str(self.source)]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self):
        done = self.compile(unit_source(self.folder))
        if done.returncode != 0 and self.folder not in read_instances():
            programs = programs_in(done.stdout)
            if programs:
                self.note = f"{self.folder} is not in instances.txt; compiled with the instances of its launches"
                done = self.compile(unit_source(self.folder, programs))
        self.output = done.stdout
        if done.returncode != 0:
            self.error = f"{self.folder}: does not compile"
        elif not self.options.syntax_only:
            self.error = check_object(self.object, self.folder)
        return self


def build(options):
    if shutil.which(options.mcc) is None:
        sys.exit(f"recipe.py: no compiler at {options.mcc}")
    folders = options.unit or units()
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        done = list(pool.map(lambda folder: Unit(folder, options).run(), folders))
    for unit in done:
        if unit.output and (unit.error or options.resource_usage):
            print(unit.output, end="")
        if unit.note:
            print(f"note: {unit.note}")
        if unit.error:
            print(f"FAILED: {unit.error}")
    failed = [unit for unit in done if unit.error]
    kernels = 0 if options.syntax_only else sum(len(kernels_of_host(u.object)) for u in done if not u.error)
    what = "syntax" if options.syntax_only else f"{kernels} kernels found in their objects"
    print(f"{options.target}: {len(done) - len(failed)} of {len(done)} units, {what}")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("units")
    commands.add_parser("flags").add_argument("--target", required=True)
    write = commands.add_parser("write")
    write.add_argument("unit")
    write.add_argument("file", type=pathlib.Path)
    builder = commands.add_parser("build")
    builder.add_argument("--mcc", default=str(STANDIN))
    builder.add_argument("--target", required=True, choices=TARGETS)
    builder.add_argument("--out", required=True)
    builder.add_argument("--include", action="append", default=[], help="the build's folder of generated headers")
    builder.add_argument("--unit", action="append", help="these units alone")
    builder.add_argument("--syntax-only", action="store_true")
    builder.add_argument("--resource-usage", action="store_true")
    options = parser.parse_args()
    if options.command == "units":
        print("\n".join(units()))
    elif options.command == "flags":
        print("\n".join(flags(options.target)))
    elif options.command == "write":
        write_if_changed(options.file, unit_source(options.unit))
    else:
        return build(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
