"""The command `heddle`: a program in C++ that shares the package's library."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).parent / "bin" / "heddle"
    if not program.exists():
        sys.exit("heddle: the command comes with an installed package (pip install .); in a checkout it is build/dev/tools/heddle")
    os.execv(program, ["heddle", *sys.argv[1:]])
