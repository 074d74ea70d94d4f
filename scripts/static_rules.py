"""The rules that need no compiler, over all tracked files: static_rules.py [RULE...]

Prints each breach as file:line: rule: text, and the number of rules and files at the end.
"""

import pathlib
import re
import subprocess
import sys

CODE = {".h", ".cc", ".cu", ".inc", ".c", ".cpp"}
# Where a vendor, a compiler or an architecture may be named.
VENDOR_FOLDERS = ("backends/", "bindings/", "packaging/", "docs/")
# The layers that know nothing of vendors.
NEUTRAL_FOLDERS = ("ops/", "device/", "include/", "llm/", "core/", "cli/")
CONDITIONAL = re.compile(
    r"\b(__CUDA\w*|__HIP\w*|__MUSA\w*|__MT_\w*|USE_[A-Z]+\w*|__AVX\w*|__SSE\w*|__FMA__|__F16C__|__x86_64\w*|__aarch64\w*|"
    r"__ARM\w*|__NVCC__|__clang\w*|__GNUC\w*)\b"
)
VENDOR = re.compile(
    r"nvidia|\bamd\b|moore.?threads|mthreads|\bmusa\b|\bmcc\b|\brocm|\bcuda|\bhip\b|kCuda|kRocm|kMusa|\bnvcc|sgl.?kernel|\bsglang|"
    r"\bvllm\b|flashinfer|llama\.cpp",
    re.IGNORECASE,
)
# A public report that a test comes from: "owner/repository#123".
ORIGIN = re.compile(r"\b[\w.-]+/[\w.-]+(#\d+|@[0-9a-f]{7,})")
# file, text that may stand there, why
ALLOWED_VENDOR_NAMES = [
    ("include/musaic/tensor.h", r"kCuda\w*|kRocm|kMusa|\bcuda\w*|\brocm|\bmusa", "the device types of DLPack's layout"),
    ("core/tensor.cc", r"kCuda\w*|kRocm|kMusa|\bcuda\w*|\brocm|\bhip|\bmusa", "the names of the device types"),
    ("include/musaic/musaic.h", r"sgl_kernel", "what the library is"),
    ("cli/tour.cc", r"\bmusa\b|Moore Threads", "what the command shows"),
]
MASK = re.compile(r"\b0x[fF]{8}(?![0-9a-fA-F'])")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.}$])/(work|tmp|root|home|mnt|Users)/")
REGISTRY = re.compile(r"https?://(deb|pypi|files|registry|index|proxy|mirror|static)\.", re.IGNORECASE)


def tracked():
    names = subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [pathlib.Path(n) for n in names if pathlib.Path(n).is_file()]


def texts(files):
    """(path, lines) of the files that are text."""
    for path in files:
        try:
            yield path, path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue


def operators():
    """folder -> operators, as ops/list.inc has them."""
    folders = {}
    for line in pathlib.Path("ops/list.inc").read_text().splitlines():
        match = re.match(r"MUSAIC_OP\(([a-z0-9_]+), [A-Za-z0-9]+, ([a-z0-9_]+), \"(.*)\"\)$", line)
        if match:
            folders.setdefault(match[2], []).append(match[1])
    return folders


def is_test(name):
    return name.endswith("test.cc") or "/tests/" in name or name.startswith("testing/")


def conditionals(files):
    """A vendor, compiler or architecture is asked for in backends/ alone."""
    for path, lines in texts(files):
        name = path.as_posix()
        if path.suffix not in CODE or name.startswith(VENDOR_FOLDERS):
            continue
        for number, line in enumerate(lines, 1):
            for match in CONDITIONAL.finditer(line):
                yield name, number, f"{match[0]} outside backends/"


def vendor_names(files):
    """Neutral folders name no vendor and no other project, but for the public report that a test comes from."""
    for path, lines in texts(files):
        name = path.as_posix()
        if path.suffix not in CODE or not name.startswith(NEUTRAL_FOLDERS):
            continue
        allowed = [re.compile(text, re.IGNORECASE) for file, text, _ in ALLOWED_VENDOR_NAMES if file == name]
        for number, line in enumerate(lines, 1):
            rest = ORIGIN.sub("", line)
            for pattern in allowed:
                rest = pattern.sub("", rest)
            if is_test(name):
                rest = re.sub(r"kCuda\w*|kRocm|kMusa|\b(cuda|rocm|musa)(:\d+)?\b", "", rest)  # tensors of a device that is not there
            match = VENDOR.search(rest)
            if match:
                yield name, number, f"'{match[0]}' in a neutral folder"


def masks(files):
    """A lane mask is never a literal."""
    for path, lines in texts(files):
        name = path.as_posix()
        kernel = name.startswith("device/") or (name.startswith("ops/") and path.name in ("row.h", "gpu.h"))
        if path.suffix not in CODE or not kernel or is_test(name):
            continue
        for number, line in enumerate(lines, 1):
            if MASK.search(line):
                yield name, number, "a literal mask of 32 lanes"


def unfinished(files):
    """Work to do stands in the tracker, never in a file."""
    for path, lines in texts(files):
        if path.as_posix() == "scripts/static_rules.py":
            continue
        for number, line in enumerate(lines, 1):
            match = UNFINISHED.search(line)
            if match:
                yield path.as_posix(), number, f"{match[0]} left in the file"


def machines(files):
    """No path of one machine, no host of a package registry."""
    for path, lines in texts(files):
        if path.as_posix() == "scripts/static_rules.py":
            continue
        for number, line in enumerate(lines, 1):
            match = MACHINE_PATH.search(line) or REGISTRY.search(line)
            if match:
                yield path.as_posix(), number, f"'{match[0]}' belongs to one machine"


def operator_files(files):
    """Every operator of the list has its contract, checks, computation, reference, test and benchmark."""
    known = {path.as_posix() for path in files}
    folders = operators()
    if not folders:
        yield "ops/list.inc", 1, "no operator found"
    for folder, names in folders.items():
        base = f"ops/{folder}/"
        for file in (f"{folder}.h", f"{folder}.cc", "args.h", "test.cc", "bench.cc"):
            if base + file not in known:
                yield base + file, 1, "missing"
        test = pathlib.Path(base + "test.cc").read_text() if base + "test.cc" in known else ""
        if base + "reference.h" not in known and not re.search(r'#include "ops/\w+/(reference|random_weights)\.h"', test):
            yield base, 1, "no reference: a reference.h of its own, or one of another operator in its test"
        if not {base + "row.h", base + "gpu.h", base + "cpu.cc"} & known:
            yield base, 1, "no computation: row.h, or gpu.h and cpu.cc"
        if base + f"{folder}.h" not in known:
            continue
        header = pathlib.Path(base + f"{folder}.h").read_text()
        if not re.search(r"^/// .*Tiers?: ", header, re.MULTILINE):
            yield base + f"{folder}.h", 1, "the contract names no tier ('/// Tier: ...')"
        for name in names:
            if not re.search(rf"^///[^\n]*\n[^\n/]*\b{name}\(", header, re.MULTILINE):
                yield base + f"{folder}.h", 1, f"no documented declaration of {name}"
        if test:
            for name in names:
                if not re.search(rf"\b{name}\b", test):
                    yield base + "test.cc", 1, f"{name} is not tested"
    listed = set(folders)
    for path in files:
        parts = path.parts
        if parts[0] == "ops" and len(parts) > 2 and parts[1] not in listed:
            yield path.as_posix(), 1, "the folder is not in ops/list.inc"


def kernel_standard_library(files):
    """Kernel units call no std:: function template of their own: it could be emitted for another instruction set."""
    pattern = re.compile(r"#include <(algorithm|vector|string|map|unordered_map|functional|memory|numeric|sstream|iostream)>")
    for path, lines in texts(files):
        name = path.as_posix()
        kernel = name.startswith("device/") or (name.startswith("ops/") and path.name in ("row.h", "gpu.h", "cpu.cc", "args.h"))
        if not kernel or is_test(name):
            continue
        for number, line in enumerate(lines, 1):
            match = pattern.search(line)
            if match:
                yield name, number, f"<{match[1]}> in a kernel unit"


def headers(files):
    """Headers guard themselves with #pragma once (C headers with a macro)."""
    for path, lines in texts(files):
        if path.suffix == ".h" and not any(line in ("#pragma once",) or line.startswith("#ifndef MUSAIC_") for line in lines):
            yield path.as_posix(), 1, "no #pragma once"


RULES = [conditionals, vendor_names, masks, unfinished, machines, operator_files, kernel_standard_library, headers]


def main():
    files = tracked()
    chosen = [rule for rule in RULES if not sys.argv[1:] or rule.__name__ in sys.argv[1:]]
    breaches = 0
    for rule in chosen:
        for name, number, text in rule(files):
            print(f"{name}:{number}: {rule.__name__}: {text}")
            breaches += 1
    print(f"{len(chosen)} rules over {len(files)} files: {breaches} breaches")
    return 1 if breaches else 0


sys.exit(main())
