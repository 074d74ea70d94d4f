"""What a shared library of ours exports: exported_symbols.py LIBRARY

Allowed are the C interface (musaic_...), names in namespace musaic but not those of one instruction set, and what the
C++ standard library's templates leave in any library.
"""

import re
import subprocess
import sys

ALLOWED = re.compile(
    r"^(musaic_\w+$|((vtable|typeinfo|typeinfo name|guard variable) for )?(\w[\w:<>*& ]* )?musaic::(?!cpu_\w+::)|.*\bstd::"
    r"|_init$|_fini$)"
)
lines = subprocess.run(["nm", "-D", "-C", "--defined-only", sys.argv[1]], check=True, capture_output=True, text=True).stdout
names = sorted({line[19:] for line in lines.splitlines()})
wrong = [name for name in names if not ALLOWED.match(name) or re.search(r"\bmusaic::cpu_\w+::", name)]
for name in wrong:
    print(f"exported, but no part of the interface: {name}")
print(f"   {len(names)} exported symbols, {sum(n.startswith('musaic_') for n in names)} of the C interface: {len(wrong)} wrong")
sys.exit(1 if wrong or not names else 0)
