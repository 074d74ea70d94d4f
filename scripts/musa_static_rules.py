#!/usr/bin/env python3
"""What kernel sources must not say if Moore Threads GPUs are to run them: musa_static_rules.py [--root FOLDER] [FILE...]

Reads device/, ops/*/row.h, ops/*/gpu.h, backends/gpu_*.h and backends/musa/ (not the stand-in's headers), or the files named. Each rule
has the tag of its public source; docs/musa.md lists the tags. Prints file:line: rule: text; exit status 1 if any.
"""

import argparse
import pathlib
import re
import sys

CONSTANT_LIMIT_BYTES = 8 << 10  # [D-inst52, M-S4000-31]
SHARED_LIMIT_BYTES = 72 << 10  # mp_22, the smaller of the two targets that the library supports [M-S4000-31]
WRAPPER = ("backends/musa/primitives.h", "sync_shared")  # where __syncthreads_lm may stand
SIZES = {"char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "short": 2, "int16_t": 2, "uint16_t": 2, "half": 2, "__half": 2,
         "int": 4, "unsigned": 4, "float": 4, "int32_t": 4, "uint32_t": 4, "double": 8, "int64_t": 8, "uint64_t": 8,
         "float2": 8, "int2": 8, "uint2": 8, "float4": 16, "int4": 16, "uint4": 16}

# (rule, pattern, text): one match is one breach
PATTERNS = [
    ("asm", r"\b(?:asm|__asm|__asm__)\b", "inline assembly: PTX does not assemble, and ports turn it into dead code [TA]"),
    ("warp-size", r"\bwarpSize\b|\bprop\w*\.warpSize\b", "warpSize: host and device disagree on mp_22 [M-S4000-51]"),
    ("cuda-macro", r"\b__CUDA_ARCH__\b|\b__CUDACC__\b|\b__NVCC__\b", "a macro that mcc does not define [TA, GG]"),
    ("system-atomic", r"\batomic\w+_system\b", "a _system atomic: sent a compiler into an endless loop [MC]"),
    ("signed-64-bit-add", r"\batomicAdd\s*\(\s*(?:\(\s*|(?:static_cast|reinterpret_cast)\s*<\s*)(?:long\s+long|long|std::int64_t|int64_t)\s*\*",
     "atomicAdd on signed 64 bits is unsupported [TL]"),
    ("half-math", r"\b(?:h2?(?:exp|exp2|exp10|log|log2|log10|sqrt|rsqrt|rcp|sin|cos|tanh|trunc|floor|ceil|rint|pow)"
     r"|__h(?:add|sub|mul|div|fma|neg|abs|max|min|eq|ne|lt|le|gt|ge)2?(?:_\w+)?)\s*\(",
     "half arithmetic: undeclared or without a body [M-S4000-31, IO]; compute in float"),
    ("musacc-value", r"^\s*#\s*(?:el)?if\b(?=.*\b__MUSACC__\b)(?!.*defined\s*\(?\s*__MUSACC__).*", "__MUSACC__ is empty: test it with defined() [TM, MU]"),
    ("extern-device", r"\bextern\s+(?:const\s+)?__(?:device|constant|managed)__", "a device object of another unit: no dependable separate compilation [M-THR]"),
    ("wide-mask", r"\b0x[fF]{9,16}(?:[uUlL]*)\b|~\s*0[uU]?[lL]{2}[uU]?\b", "a 64-bit lane mask: masks have 32 bits [D-warp]"),
    ("grid-constant", r"\b__grid_constant__\b", "__grid_constant__ is empty in the vendor's own libraries [MU]"),
    ("nanosleep", r"\b__nanosleep\b", "__nanosleep is not known to exist [GG, MC]"),
    ("async-memory", r"\bmusa(?:MallocAsync|FreeAsync|MemPool\w+|DeviceGetDefaultMemPool)\b", "stream-ordered allocation throws in torch_musa [TM]"),
]


def blank(text):
    """The text without comments and the contents of strings, line by line as long as before."""
    def keep_lines(match):
        return re.sub(r"[^\n]", " ", match.group(0))

    return re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", keep_lines, text, flags=re.S)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def arguments(text, start):
    """The top-level arguments of a call whose opening parenthesis is at start."""
    depth, begin, found = 0, start + 1, []
    for i in range(start, len(text)):
        c = text[i]
        if c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        if (c == "," and depth == 1) or depth == 0:
            found.append(text[begin:i].strip())
            begin = i + 1
            if depth == 0:
                break
    return found


def exchanges(text):
    for match in re.finditer(r"\b(__shfl\w*)\s*(\()", text):
        given = arguments(text, match.start(2))
        line = line_of(text, match.start())
        if not match.group(1).endswith("_sync"):
            yield line, "exchange", f"{match.group(1)}: only the _sync forms are documented [D-warp]"
        elif len(given) != 4:
            yield line, "exchange", f"{match.group(1)} with {len(given)} arguments: the width must be written [M-S4000-51]"
        elif given[3] != "kWarpLanes" and not (given[3].isdigit() and 1 <= int(given[3]) <= 32):
            yield line, "exchange", f"{match.group(1)} with width '{given[3]}': a number up to 32, or kWarpLanes [M-S4000-51]"


def arrays(text, qualifier, limit, rule):
    """Arrays with the qualifier whose size can be read, summed by file for constants, singly for shared memory."""
    total = 0
    for match in re.finditer(rf"\b{qualifier}\s+(?:const\s+|static\s+)*(?:std::)?(\w+)\s+\w+((?:\s*\[[^\]]*\])+)", text):
        product = SIZES.get(match.group(1), 0)
        for extent in re.findall(r"\[([^\]]*)\]", match.group(2)):
            if not re.fullmatch(r"[\d\s*+<()]+", extent):
                product = 0
                break
            product *= eval(extent, {"__builtins__": {}})  # pylint: disable=eval-used
        total = total + product if rule == "constants" else product
        if total > limit:
            yield line_of(text, match.start()), rule, f"{total} bytes of {qualifier}, beyond {limit}"


def members(text):
    """__restrict__ on a member of a struct: breaks its assignment [TA, VM0]."""
    stack, begin = [], 0
    for match in re.finditer(r"[{};]", text):
        piece, c = text[begin:match.start()], match.group(0)
        if c == "{":
            stack.append(bool(re.search(r"\b(?:struct|class|union)\b[^()]*$", piece)))
        else:
            if c == ";" and stack and stack[-1] and re.search(r"\b__restrict(?:__)?\b", piece) and "(" not in piece:
                yield line_of(text, match.start()), "restrict-member", "__restrict__ on a member breaks assignment [TA, VM0]"
            if c == "}" and stack:
                stack.pop()
        begin = match.end()


def light_barrier(text, name):
    wrapper = None
    if name.endswith(WRAPPER[0]):
        wrapper = re.search(rf"\bvoid\s+{WRAPPER[1]}\s*\(\s*\)\s*\{{.*?^\}}", text, re.S | re.M)
    for match in re.finditer(r"\b__syncthreads_lm\b", text):
        if wrapper is None or not wrapper.start() < match.start() < wrapper.end():
            yield line_of(text, match.start()), "light-barrier", f"__syncthreads_lm outside {WRAPPER[1]}() [TM, SG]"


def breaches(name, text):
    """(line, rule, text) of everything that a file must not say."""
    text = blank(text)
    for rule, pattern, why in PATTERNS:
        for match in re.finditer(pattern, text, re.M):
            yield line_of(text, match.start() + len(match.group(0)) - len(match.group(0).lstrip())), rule, why
    yield from exchanges(text)
    yield from arrays(text, "__constant__", CONSTANT_LIMIT_BYTES, "constants")
    yield from arrays(text, "__shared__", SHARED_LIMIT_BYTES, "shared-memory")
    yield from members(text)
    yield from light_barrier(text, name)


def sources(root):
    patterns = ("device/*.h", "ops/*/row.h", "ops/*/gpu.h", "backends/gpu_*.h", "backends/musa/*.h", "backends/musa/*.mu", "backends/musa/ops/*")
    return sorted(path for pattern in patterns for path in root.glob(pattern) if path.is_file())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    files = options.files or sources(options.root)
    if not files:
        sys.exit(f"musa_static_rules.py: no kernel source under {options.root}")
    count = 0
    for path in files:
        name = path.relative_to(options.root).as_posix() if path.is_relative_to(options.root) else path.as_posix()
        for line, rule, why in sorted(breaches(name, path.read_text(encoding="utf-8"))):
            print(f"{name}:{line}: {rule}: {why}")
            count += 1
    print(f"{count} breaches of the rules for MUSA in {len(files)} kernel sources")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
