#!/usr/bin/env python3
"""Operators against NumPy: writes cases, one line of JSON each, and runs the program that compares them.

cases.py PROGRAM. A case: operator, arguments, parameters, what NumPy gives, and how near floats must be to it. Arrays
are [dtype, shape, bytes in hex]. References of floats are computed in a wider type and rounded once.
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings

SKIPPED = 77
sys.dont_write_bytecode = True
SYSTEM_PYTHON = "/usr/bin/python3"  # the package python3-numpy is for this one
try:
    import numpy as np
except ImportError:
    if os.path.exists(SYSTEM_PYTHON) and not os.environ.get("HEDDLE_NUMPY_RETRIED"):
        os.environ["HEDDLE_NUMPY_RETRIED"] = "1"
        os.execv(SYSTEM_PYTHON, [SYSTEM_PYTHON, *sys.argv])
    print("skipped: Python cannot import numpy; install python3-numpy")
    sys.exit(SKIPPED)

NAMES = {"bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8", "uint16": "u16",
         "uint32": "u32", "uint64": "u64", "float16": "f16", "float32": "f32", "float64": "f64"}
LINES = []


def encode(array):
    array = np.asarray(array)
    return [NAMES[array.dtype.name], list(array.shape), np.ascontiguousarray(array).tobytes().hex()]


def case(op, args, expected, ulp=0, near=0, zeros=False, **params):
    """`expected`: an array, or a list of them for several results. Floats within `ulp` numbers of their dtype are right,
    or within `near`. `zeros`: whether the sign of zero counts."""
    expected = expected if isinstance(expected, (list, tuple)) else [expected]
    LINES.append(json.dumps({"op": op, "x": [encode(a) for a in args], "p": params,
                             "y": [encode(e) for e in expected], "ulp": ulp, "abs": near, "zeros": zeros}))


def main():
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.modules["cases"] = sys.modules["__main__"]
    import elementwise
    import order
    import reductions
    import views

    warnings.simplefilter("ignore", RuntimeWarning)  # means of nothing
    with np.errstate(all="ignore"):
        for module in (elementwise, reductions, views, order):
            module.write()
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("\n".join(LINES) + "\n")
        file.flush()
        sys.exit(subprocess.run([sys.argv[1], file.name]).returncode)


if __name__ == "__main__":
    main()
