"""The tables of docs/from-sgl-kernel.md, from the alias table and the list: from_sgl_kernel.py [--write]

Without --write: fails if the page's tables differ from what the sources say, or if a path that the page names is not there.
"""

import pathlib
import re
import sys

TREE = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TREE / "bindings/python"))
PAGE = TREE / "docs/from-sgl-kernel.md"
BEGIN, END = "<!-- operators: made by scripts/from_sgl_kernel.py -->", "<!-- end of operators -->"


def load_table():
    scope = {}
    exec((TREE / "bindings/python/musaic/sgl_table.py").read_text(), scope)
    return scope["MODULES"]


def table():
    listed = dict(re.findall(r'^MUSAIC_OP\((\w+), \w+, (\w+), ', (TREE / "ops/list.inc").read_text(), re.M))
    aliases = re.findall(r'^MUSAIC_ALIAS\("([\w ]+)", "([\d.]+)", "(\w+)\(.*\) -> .*", (\w+), ".*"\)$',
                         (TREE / "bindings/torch/aliases.inc").read_text(), re.M)
    by_name = {name: (vendors, since, op) for vendors, since, name, op in aliases if op in listed}
    python = {}
    for module, functions in load_table().items():
        for name in functions:
            python.setdefault(name, []).append(module)
    names = sorted(set(by_name) | set(python), key=lambda n: (python.get(n, ["~"])[0], n))
    rows = ["| upstream's name | Python module | vendors, since | our operator | folder: contract, computation, tests |", "|---|---|---|---|---|"]
    done = 0
    for name in names:
        if name.startswith("_"):
            continue
        modules = ", ".join(python.get(name, [])) or "operator only"
        if name in by_name:
            vendors, since, op = by_name[name]
            folder = listed[op]
            rows.append(f"| `{name}` | {modules} | {vendors}, {since} | `{op}` | `ops/{folder}` |")
            done += 1
        else:
            rows.append(f"| `{name}` | {modules} | | not yet: raises when called | |")
    rows.append("")
    rows.append(f"{done} of {sum(not n.startswith('_') for n in names)} names have an operator here.")
    return "\n".join(rows)


def main():
    text = PAGE.read_text()
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    wanted = f"{head}{BEGIN}\n\n{table()}\n\n{END}{tail}"
    if "--write" in sys.argv[1:]:
        PAGE.write_text(wanted)
        return 0
    wrong = [] if text == wanted else [f"{PAGE.relative_to(TREE)}: its table is not what the sources say; run scripts/from_sgl_kernel.py --write"]
    for path in re.findall(r"`((?:ops|bindings|backends|packaging|docs|scripts|device|core)/[\w./*-]+)`", text):
        if not list(TREE.glob(path.rstrip("/"))):
            wrong.append(f"{PAGE.relative_to(TREE)}: {path} is not there")
    print("\n".join(wrong) or f"   {PAGE.relative_to(TREE)}: {wanted.count('| `')} names, and every path it names is there")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
