"""What was run where, derived from the records in docs/runs/: the tables of docs/status.md and of both READMEs.

    status.py --write                        writes the tables
    status.py --check [--results FOLDER]     fails if one is stale, if a record names what does not exist, or if this run of
                                             the tests (the reports that ./check leaves) did not do what a record of the
                                             executor says
    status.py --count [--results FOLDER]     how many operators were run on what; on simulated targets in this run alone
    status.py --record FILE --machine NAME --short WORD --results FOLDER [--as musa:0=musa-on-cuda:mp_31]
    status.py --record FILE --machine NAME --short WORD --report CHECK.json [--as ...]
                                             writes a record of a run: of the tests, or of `musaic check --json`

A record is one run: {"date", "machine", "short", "how", "targets": {target: [operator, ...]}}. Targets: cpu:x86-64-v3,
simt:musa-mp31, cuda, musa, hip; musa-on-cuda:mp_31 (the MUSA sources, compiled by nvcc), standin:mp_31 (the recipe's dry
run), mcc-VERSION:mp_31 and hipcc-VERSION:gfx90a (compiled, not run). An operator is in a run if all its tests there passed,
or all its cases of `musaic check`.
"""

import argparse
import datetime
import json
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUNS = ROOT / "docs" / "runs"
STATUS = ROOT / "docs" / "status.md"
SIMULATED = ("simt:cuda", "simt:hip", "simt:musa-mp31", "simt:musa-mp22", "simt:musa-mp21")
CPU_PATHS = ("cpu:x86-64-v4", "cpu:x86-64-v3", "cpu:baseline")
BEGIN, END = "<!-- scripts/status.py --write -->", "<!-- end -->"


def operators():
    """[(family, operator, folder)] of ops/list.inc."""
    result, family = [], ""
    for line in (ROOT / "ops" / "list.inc").read_text().splitlines():
        if re.match(r"// [A-Z][\w ,-]+$", line):
            family = line[3:]
        if found := re.match(r"MUSAIC_OP\((\w+), \w+, (\w+)", line):
            result.append((family, *found.groups()))
    return result


def has_gpu_form(folder):
    return any((ROOT / "ops" / folder / form).is_file() for form in ("row.h", "gpu.h"))


def records():
    """The records, oldest first."""
    found = []
    for path in sorted(RUNS.glob("*.json")):
        record = json.loads(path.read_text())
        record["file"] = path.name
        found.append(record)
    return sorted(found, key=lambda r: (r["date"], r["file"]))


def where(runs, operator, prefix):
    """{target: latest record} of the runs of an operator on targets that begin so."""
    return {t: r for r in runs for t, names in r["targets"].items() if t.startswith(prefix) and operator in names}


def by_run(found, shorten):
    """'v3, baseline (EPYC, 2026-12-01); v4 (Xeon, 2026-12-01)'."""
    groups = {}
    for target, record in found.items():
        groups.setdefault((record["short"], record["date"]), []).append(shorten(target))
    return "; ".join(f"{', '.join(names)} ({short}, {date})" for (short, date), names in groups.items())


def on_hardware(found):
    return "run on hardware: " + "; ".join(dict.fromkeys(f"{r['short']}, {r['date']}" for r in found.values()))


def compiled(found):
    return ["compiled by " + " ".join(re.match(r"(\w+)-([^:]+):(.*)", t).groups()[:2]) + f" ({t.split(':')[1]})"
            for t in found]


def cells(runs, operator, folder):
    """What the columns cpu, simt, cuda, musa and hip say of an operator."""
    cpu = {t: r for t in CPU_PATHS for r in [where(runs, operator, t).get(t)] if r}
    row = ["run on hardware: " + by_run(cpu, lambda t: t.split("-")[-1].split(":")[-1]) if cpu else "not run"]
    if not has_gpu_form(folder):
        return row + ["–"] * 4
    simulated = where(runs, operator, "simt:")
    names = [t.split(":")[1].removeprefix("musa-") for t in SIMULATED if t in simulated]
    row.append(f"run on the SIMT executor: {', '.join(names)}" if names else "not run")
    cuda = where(runs, operator, "cuda")
    row.append(on_hardware(cuda) if cuda else "not run")
    musa, on_cuda = where(runs, operator, "musa:"), where(runs, operator, "musa-on-cuda:")
    words = [on_hardware(musa)] if musa else []
    if on_cuda:
        words.append("MUSA sources run on CUDA hardware: "
                     + "; ".join(dict.fromkeys(f"{r['short']}, {r['date']}" for r in on_cuda.values())))
    words += compiled(where(runs, operator, "mcc-"))
    if where(runs, operator, "standin:"):
        words.append("recipe dry-run, stand-in compiler")
    row.append("; ".join(words) or "not run")
    hip = where(runs, operator, "hip:")
    row.append("; ".join(([on_hardware(hip)] if hip else []) + compiled(where(runs, operator, "hipcc-"))) or
               ("not run" if (ROOT / "backends/hip/backend.cmake").is_file() else "–"))
    return row


def status_table(runs):
    lines = ["| operator | cpu | simt | cuda | musa | hip |", "|---|---|---|---|---|---|"]
    lines += [f"| `{op}` | " + " | ".join(cells(runs, op, folder)) + " |" for _, op, folder in operators()]
    lines += ["", "| record | date | machine | what was done |", "|---|---|---|---|"]
    lines += [f"| [{r['file']}](runs/{r['file']}) | {r['date']} | {r['machine']} | {r['how']} |" for r in runs]
    return lines


def readme_table(runs, chinese):
    """How many operators of each family ran on what."""
    head = ("| 算子族 | 算子 | CPU | 执行器 | NVIDIA | MUSA 源码在 NVIDIA 上 | 摩尔线程 | AMD |" if chinese else
            "| family | operators | CPU | executor | NVIDIA | MUSA sources on NVIDIA | Moore Threads | AMD |")
    lines, families = [head, "|---" * 8 + "|"], {}
    for family, op, _ in operators():
        families.setdefault(family, []).append(op)
    total = [0] * 7
    for family, names in families.items():
        counts = [len(names)] + [sum(bool(where(runs, op, prefix)) for op in names) for prefix in
                                 ("cpu:", "simt:", "cuda", "musa-on-cuda:", "musa:", "hip:")]
        total = [a + b for a, b in zip(total, counts)]
        lines.append(f"| {family} | " + " | ".join(str(n) if n else "–" for n in counts) + " |")
    lines.append("| **" + ("合计" if chinese else "all") + "** | " + " | ".join(str(n) if n else "–" for n in total) + " |")
    return lines


def derived(runs):
    """{file: its text with the tables of today}."""
    result = {}
    for path, table in ((STATUS, status_table(runs)), (ROOT / "README.md", readme_table(runs, False)),
                        (ROOT / "README.zh-CN.md", readme_table(runs, True))):
        text = path.read_text()
        before, found, rest = text.partition(BEGIN + "\n")
        if not found or END not in rest:
            raise SystemExit(f"status.py: {path.name} lacks the lines {BEGIN} and {END}")
        result[path] = before + BEGIN + "\n" + "\n".join(table) + "\n" + END + rest.partition(END)[2]
    return result


def of_tests(results):
    """{target: {operator}} of the reports of the test programs in a folder: a target of a folder's tests counts if some ran
    there and no test of the program failed."""
    found = {}
    for folder in dict.fromkeys(folder for _, _, folder in operators()):
        report = results / f"test_{folder}.json"
        if not report.is_file():
            continue
        data = json.loads(report.read_text())
        if data["failures"] or data.get("errors"):
            continue
        for suite in data["testsuites"]:
            for case in suite["testsuite"]:
                if case["status"] != "RUN" or case["result"] != "COMPLETED" or "value_param" not in case:
                    continue
                target = case["value_param"].strip('"')
                found.setdefault(target, set()).update(op for _, op, f in operators() if f == folder)
    junit = results.with_suffix(".xml")
    if junit.is_file():
        for case in ElementTree.parse(junit).getroot().iter("testcase"):
            if case.get("name") == "test_musa_dry_run" and case.get("status") == "run":
                units = subprocess.run([sys.executable, ROOT / "backends/musa/recipe.py", "units"], capture_output=True,
                                       text=True, check=True).stdout.split()
                for target in ("standin:mp_31", "standin:mp_22"):
                    found[target] = {op for _, op, folder in operators() if folder in units}
    return found


def of_report(path):
    """{target: {operator}} of the file that `musaic check --json` wrote."""
    found = {}
    for device in json.loads(path.read_text())["devices"]:
        states = {}
        for case in device["cases"]:
            states.setdefault(case["operator"], set()).add(case["state"])
        target = "cpu:" + device["architecture"] if device["device"] == "cpu" else device["device"]
        found[target] = {op for op, seen in states.items() if "passed" in seen and "failed" not in seen}
    return found


def record(options):
    targets = of_tests(options.results) if options.results else of_report(options.report)
    renamed = dict(pair.split("=") for pair in options.renamed)
    if "musa:0" in targets and "musa:0" not in renamed:
        raise SystemExit("status.py: musa:0 may be a Moore Threads GPU (--as musa:0=musa:0) or the MUSA sources on an NVIDIA GPU "
                         "(--as musa:0=musa-on-cuda:mp_31): say which")
    names = [op for _, op, _ in operators()]
    out = {"date": datetime.date.today().isoformat(), "machine": options.machine, "short": options.short,
           "how": options.how or ("the tests of the operators" if options.results else "musaic check"),
           "targets": {renamed.get(t, t): sorted(ops, key=names.index) for t, ops in sorted(targets.items())
                       if ops and (not options.only or any(t.startswith(p) for p in options.only))}}
    if not out["targets"]:
        raise SystemExit("status.py: no operator passed in that run: nothing to record")
    RUNS.mkdir(exist_ok=True)
    body = ",\n".join(f"  {json.dumps(t)}: {json.dumps(o)}" for t, o in out["targets"].items())
    lines = [f" {json.dumps(k)}: {json.dumps(out[k])}" for k in ("date", "machine", "short", "how")]
    options.record.write_text("{\n" + ",\n".join(lines) + ',\n "targets": {\n' + body + "\n }\n}\n")
    print(f"   {options.record.name}: " + ", ".join(f"{t} {len(o)}" for t, o in out["targets"].items()))


def complaints(runs, results):
    """What is wrong with the records and the tables."""
    folders = {op: folder for _, op, folder in operators()}
    for r in runs:
        for target, names in r["targets"].items():
            for op in names:
                if op not in folders:
                    yield f"docs/runs/{r['file']}: {target}: there is no operator {op}"
                elif not target.startswith("cpu:") and not has_gpu_form(folders[op]):
                    yield f"docs/runs/{r['file']}: {target}: {op} has no form for GPUs"
    for path, text in derived(runs).items():
        if path.read_text() != text:
            yield f"{path.relative_to(ROOT)} is stale: python3 scripts/status.py --write"
    if results is None:
        return
    seen = of_tests(results)
    for target in SIMULATED:
        if seen:
            claimed = {op for op in folders if where(runs, op, target)}
            for op in sorted(claimed - seen.get(target, set())):
                yield f"docs/status.md says that {op} was run on {target}; its tests of this run did not pass there"


def count(runs, results):
    total = len(operators())
    seen = of_tests(results) if results else {}
    print(f"Operators of {total} that were run:")
    for target in SIMULATED:
        print(f"   {len(seen.get(target, ())):3d} on {target}, in this run (a model of the device, on the CPU)")
    for words, prefix in (("NVIDIA hardware", "cuda"), ("NVIDIA hardware from the MUSA sources", "musa-on-cuda:"),
                          ("AMD hardware", "hip:"), ("Moore Threads hardware", "musa:")):
        ops = {op for _, op, _ in operators() if where(runs, op, prefix)}
        which = dict.fromkeys(f"{r['short']}, {r['date']}" for op in sorted(ops) for r in where(runs, op, prefix).values())
        print(f"   {len(ops):3d} on {words}" + (f", as recorded ({'; '.join(which)})" if which else ""))
    if seen:
        print(f"   To record this run: python3 scripts/status.py --record docs/runs/NAME.json --machine '...' --short WORD "
              f"--results {results.resolve().relative_to(ROOT)} --write")


def main():
    parser = argparse.ArgumentParser()
    for name in ("write", "check", "count"):
        parser.add_argument(f"--{name}", action="store_true")
    for name in ("record", "results", "report"):
        parser.add_argument(f"--{name}", type=pathlib.Path)
    for name in ("machine", "short", "how"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--as", dest="renamed", action="append", default=[])
    parser.add_argument("--only", action="append", default=[], help="targets that begin so")
    options = parser.parse_args()
    if options.record:
        if not options.machine or not options.short or bool(options.results) == bool(options.report):
            parser.error("--record FILE wants --machine, --short, and --results or --report")
        record(options)
    runs = records()
    if options.write:
        for path, text in derived(runs).items():
            path.write_text(text)
    status = 0
    if options.check:
        for line in complaints(runs, options.results):
            print(line)
            status = 1
    if options.count:
        count(runs, options.results)
    return status


sys.exit(main())
