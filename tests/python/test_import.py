import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_import_does_not_import_numpy():
    assert run("import heddle, sys; print('numpy' in sys.modules)") == "False"


def test_version_is_that_of_the_package():
    project = Path(__file__).parents[2] / "pyproject.toml"  # not there where an installed wheel is tested
    if project.exists():
        version = re.search(r'^version = "(.*)"$', project.read_text(), re.MULTILINE)[1]
    else:
        version = metadata.version("heddle")
    assert run("import heddle; print(heddle.__version__)") == version


def test_tensors_work_without_numpy():
    program = """
import sys
sys.modules["numpy"] = None
import heddle as hd
x = hd.tensor([[1, 2], [3, 4]])
print((x @ x).tolist(), repr(x.sum()), x[x > 2].tolist(), bytes(memoryview(x))[0])
"""
    assert run(program) == "[[7, 10], [15, 22]] tensor(10) [3, 4] 1"


def test_process_ends_well_with_live_tensors():
    program = """
import heddle as hd, numpy as np
keep = hd.from_numpy(np.ones(1000)), hd.ones(3).numpy(), hd.from_dlpack(np.arange(3))
@hd.jit
def f(x): return x + keep[0]
f(hd.ones(1000)); f(hd.ones(1000))
print("done")
"""
    assert run(program) == "done"


def test_star_import_hides_nothing():
    assert run("from heddle import *; print(sum([1, 2]), max(3, 4), int(5), abs(-1))") == "3 4 5 1"


def test_a_child_of_fork_computes():
    program = """
import os, heddle as hd
x = hd.arange(100).sum().item()
pid = os.fork()
if pid == 0:
    os._exit(0 if (hd.arange(100) * 2).sum().item() == 9900 else 1)
print(os.waitpid(pid, 0)[1])
"""
    assert run(program) == "0"
