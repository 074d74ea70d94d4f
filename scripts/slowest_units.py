"""What compiling cost: slowest_units.py LOG

LOG is what scripts/timed_compile wrote: CPU seconds and output of each compilation. Prints the total, the slowest units
and, per operator folder, the seconds of all its units (kernels once per instruction set, checks, test, benchmark). A
unit that came from the compiler cache counts with the time of its last real compilation, if the log has one.
"""

import collections
import pathlib
import re
import sys

BUDGET_PER_OPERATOR_S = 20.0
CACHE_HIT_S = 0.2  # a real compilation takes longer, a hit does not

seconds, last = {}, {}
log = pathlib.Path(sys.argv[1])
for line in log.read_text().splitlines() if log.exists() else []:
    taken, output = line.split(" ", 1)
    last[output] = float(taken)
    if float(taken) >= CACHE_HIT_S:
        seconds[output] = float(taken)

operators = collections.Counter(
    re.findall(r"^MUSAIC_OP\(\w+, \w+, (\w+),", pathlib.Path("ops/list.inc").read_text(), re.MULTILINE)
)
folders = collections.Counter()
for output, taken in seconds.items():
    match = re.search(r"/ops/(\w+)/", output) or re.search(r"/cpu/(\w+)\.cc\.o$", output)
    if match and match[1] in operators:
        folders[match[1]] += taken

unknown = len(last) - len(seconds)
print(f"   Compiling {len(seconds)} units took {sum(seconds.values()):.0f} CPU s; {unknown} more came from the compiler cache.")
print("   Slowest units:")
for output, taken in sorted(seconds.items(), key=lambda item: -item[1])[:6]:
    print(f"   {taken:7.1f} s  {output.replace('CMakeFiles/', '')}")
print(f"   Slowest operator folders (budget: {BUDGET_PER_OPERATOR_S:.0f} s an operator):")
for folder, taken in folders.most_common(6):
    over = ", over the budget" if taken > BUDGET_PER_OPERATOR_S * operators[folder] else ""
    print(f"   {taken:7.1f} s  {folder}: {operators[folder]} operator{'s' * (operators[folder] > 1)}{over}")
total = sum(operators[folder] for folder in folders)
print(f"   All operator folders: {sum(folders.values()):.0f} s of {BUDGET_PER_OPERATOR_S * total:.0f} s for {total} operators.")
