"""Sums up what the tests of a ./check run did: count_tests.py RESULTS FAILED_STEPS

RESULTS holds NAME.xml, ctest's report of one build, and NAME/, the reports of the GoogleTest programs in it. A test of
ctest that is a GoogleTest program counts as its cases, any other as one. Prints ctest's summary line for each build
and closes with one line over all. A failed step without a failed test in any report counts as one failure.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def cases(report):
    """(passed, failed, skipped) of one GoogleTest program."""
    passed = failed = skipped = 0
    for suite in json.loads(report.read_text())["testsuites"]:
        for case in suite["testsuite"]:
            if case.get("failures"):
                failed += 1
            elif case["status"] == "NOTRUN" or case["result"] == "SKIPPED":
                skipped += 1
            else:
                passed += 1
    return passed, failed, skipped


def main():
    results, failed_steps = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    total = [0, 0, 0]
    for xml in sorted(results.glob("*.xml")):
        names = {}
        for case in ElementTree.parse(xml).getroot().iter("testcase"):
            names[case.get("name")] = case.get("status")  # run, fail, notrun, disabled
        failures = sum(status == "fail" for status in names.values())
        ran = [name for name, status in names.items() if status in ("run", "fail")]
        counts = [0, 0, 0]
        reports = {report.stem: report for report in (results / xml.stem).glob("*.json")}
        for name in ran:
            if name in reports and names[name] == "run":
                counts = [a + b for a, b in zip(counts, cases(reports[name]))]
            elif name in reports:
                passed, failed, skipped = cases(reports[name])
                counts = [counts[0] + passed, counts[1] + max(failed, 1), counts[2] + skipped]
            else:
                counts[1 if names[name] == "fail" else 0] += 1
        counts[2] += len(names) - len(ran)
        percent = 100 * (len(ran) - failures) // max(len(ran), 1)
        print(f"{xml.stem}: {counts[0]} cases passed, {counts[1]} failed, {counts[2]} skipped; ctest:")
        print(f"{percent}% tests passed, {failures} tests failed out of {len(ran)}")
        total = [a + b for a, b in zip(total, counts)]
    if failed_steps and not total[1]:
        total[1] = failed_steps
    skipped = f", {total[2]} skipped" if total[2] else ""
    print(f"{total[0]} passed, {total[1]} failed{skipped}")
    return 1 if total[1] or not total[0] else 0


sys.exit(main())
