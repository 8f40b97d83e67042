"""Heddle beside PyTorch, JAX and Numba in one process, whichever comes first."""

import itertools
import subprocess
import sys

import pytest

USE = {
    "heddle": "import heddle; assert (heddle.ones(300, 300) @ heddle.ones(300, 300)).sum().item() == 300.0**3",
    "torch": "import torch; assert (torch.ones(300, 300) @ torch.ones(300, 300)).sum().item() == 300.0**3",
    "jax": "import jax.numpy; assert float((jax.numpy.ones((300, 300)) @ jax.numpy.ones((300, 300))).sum()) == 300.0**3",
    "numba": "import numba; assert numba.njit(lambda n: n * n)(300) == 90000",
}
THREADS = """
import threading
def work():
    for _ in range(20):
        assert heddle.softmax(heddle.randn(64, 64), -1).sum().item() - 64 < 1e-3
        torch.softmax(torch.randn(64, 64), -1).sum().item()
        float(jax.nn.softmax(jax.numpy.ones((64, 64)), -1).sum())
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
"""


def run(program, timeout=300):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.parametrize("order", list(itertools.permutations(USE)), ids="-".join)
def test_every_order_of_imports(order):
    uses = [USE[name] for name in order]
    # Again in the other direction: nobody has broken what was there before.
    run("\n".join(uses + uses[::-1]))


def test_threads_that_use_all_of_them():
    run("\n".join(USE.values()) + "\nimport jax\n" + THREADS)


def test_signals_and_settings_stay_as_they_were():
    run(
        "import os, signal, threading\n"
        "before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGSEGV, signal.SIGTERM)], os.environ.copy()\n"
        "import heddle; heddle.ones(3).sum().item()\n"
        "assert before == ([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGSEGV, signal.SIGTERM)], os.environ)\n"
        "assert threading.active_count() == 1"
    )


def test_rounding_of_small_numbers_is_left_alone():
    run(
        "import heddle, numpy\n"
        "heddle.softmax(heddle.randn(512, 512), -1).sum().item()\n"
        "assert numpy.float32(1e-40) * numpy.float32(0.5) != 0\n"
    )
