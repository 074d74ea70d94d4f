"""The program musaic that the wheel carries."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).resolve().parent / "bin" / "musaic"
    if not program.exists():
        sys.exit("musaic: this installation was built without the program (MUSAIC_BUILD_CLI)")
    os.execv(program, ["musaic", *sys.argv[1:]])
