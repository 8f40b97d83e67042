"""The stubs say what the package has: type checkers look at nothing else. `make typecheck` runs these."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def test_stubs_are_those_of_the_package():
    done = subprocess.run([sys.executable, ROOT / "scripts" / "python_stubs.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + "\nscripts/python_stubs.py writes those that are made"


def test_a_difference_is_found(tmp_path):
    """A name that a stub lacks, and a parameter that is called otherwise."""
    program = f"""
import sys
sys.path.insert(0, {str(ROOT / "scripts")!r})
import heddle as hd, python_stubs
hd.control.map.__signature__ = __import__("inspect").signature(lambda f, values: None)
hd.control.another = lambda x: x
hd.control.another.__module__ = "heddle.control"
print(*python_stubs.compare("control"), sep="\\n")
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert "another is missing" in out and "map has" in out
