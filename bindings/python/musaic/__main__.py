"""python -m musaic: the operators and what serves them here; with the wheel, `musaic` is the program."""

import musaic

print(f"musaic {musaic.__version__}, {len(musaic.operators())} operators")
for name in musaic.operators():
    print(f"  {musaic.schema(name)}")
