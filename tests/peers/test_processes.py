"""Processes that fork, start anew and end, beside PyTorch; references that come back."""

import gc
import subprocess
import sys

import heddle as hd
import numpy as np
import pytest
import torch


def run(program, *options):
    done = subprocess.run([sys.executable, *options, "-c", program], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stderr[-3000:]}"
    assert "nanobind: leaked" not in done.stderr and "Error" not in done.stderr, done.stderr[-3000:]
    return done.stdout


def test_a_forked_child_computes():
    run(
        "import os, torch, heddle as hd\n"
        "w = hd.randn(64, 64)\n"
        "expected = (w @ w).sum().item(); torch.randn(8, 8).exp().sum().item()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    same = (w @ w).sum().item() == expected\n"
        "    os._exit(0 if same and hd.jit(lambda x: x.exp().sum())(w).item() > 0 else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0\n"
        "assert (w @ w).sum().item() == expected"
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_processes_send_tensors(method, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing as mp, sys\n"
        "import heddle as hd, torch\n"
        "def work(x):\n"
        "    return (x * 2).realize(), torch.ones(3).sum().item()\n"
        "if __name__ == '__main__':\n"
        "    hd.ones(8).sum().item()\n"
        "    with mp.get_context(sys.argv[1]).Pool(2) as pool:\n"
        "        results = pool.map(work, [hd.full((4,), float(i)) for i in range(6)])\n"
        "    assert [r[0].tolist() for r in results] == [[2.0 * i] * 4 for i in range(6)]\n"
    )
    done = subprocess.run([sys.executable, program, method], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]


SHUTDOWN = {
    "tensors": "x = hd.randn(100).realize(); y = x + 1; import builtins; builtins.kept = (x, y)",
    "gradients": "net = hd.nn.Linear(3, 3); net(hd.ones(2, 3)).sum().backward(); g = net.weight.grad",
    "captured": "f = hd.jit(lambda x: {'a': x + 1}); out = f(hd.ones(3)); f(hd.ones(3)); f.me = f",
    "shared": "import numpy, torch; a = numpy.asarray(hd.ones(64)); t = torch.from_dlpack(hd.ones(64)); u = hd.from_dlpack(t)",
    "circles": "class C: pass\nc = C(); c.x = hd.ones(3) + 1; c.me = c; m = hd.nn.Module(); m.__dict__['me'] = m",
    "threads": "import threading; t = threading.Thread(target=lambda: hd.randn(500, 500).exp().sum().item()); t.start()",
    "daemons": "import threading\ndef go():\n    while True: hd.randn(64, 64).sum().item()\n"
    "threading.Thread(target=go, daemon=True).start(); import time; time.sleep(0.2)",
    "exit hooks": "import atexit; x = hd.ones(3); atexit.register(lambda: (x + 1).sum().item())",
    "finalisers": "import weakref\nx = hd.ones(3).realize()\nclass D:\n    def __del__(self): (x + 1).tolist()\nd = D()",
}


@pytest.mark.parametrize("name", SHUTDOWN)
def test_the_interpreter_ends_with_live(name):
    run(f"import heddle as hd\n{SHUTDOWN[name]}\n", "-X", "dev")


def memory_in_use():
    gc.collect()
    return hd.device("cpu").memory()["used"]


def step(net, opt, x, t):
    opt.zero_grad()
    loss = hd.nn.functional.cross_entropy(net(x), t)
    loss.backward()
    opt.step()
    return loss.item()


def work():
    x = hd.tensor(np.ones((64, 64), np.float32))
    y = x[1:, ::2] @ x[::2, :].T[: 32, :]
    y.numpy(), np.asarray(y), torch.from_dlpack(y.realize()), hd.from_dlpack(torch.ones(1000)), hd.sort(x), x.tolist()
    hd.grad(lambda x: (x * x).sum())(x), hd.vmap(lambda x: x.sum())(x).realize()
    hd.scan(lambda c, x: (c + x, c), hd.zeros(64), x)[0].realize()
    with pytest.raises(hd.Error):
        x.reshape(3, 5)
    with pytest.raises(TypeError):
        hd.exp("no")


def test_nothing_is_kept_after_work():
    net = hd.nn.Linear(16, 4)
    opt = hd.optim.AdamW(net.parameters())
    x, t = hd.randn(8, 16).realize(), hd.zeros(8, dtype="int64").realize()
    captured = hd.jit(lambda x: (x.exp(), {"sum": x.sum()}))

    def everything():
        work()
        step(net, opt, x, t)
        captured(x)

    for _ in range(5):
        everything()
    objects, bytes_before = len(gc.get_objects()), memory_in_use()
    references = [sys.getrefcount(each) for each in (None, True, hd.Tensor, hd.float32, hd.sort, x, net, opt, captured)]
    for _ in range(30):
        everything()
    assert memory_in_use() <= bytes_before + 4096
    assert len(gc.get_objects()) < objects + 60
    now = [sys.getrefcount(each) for each in (None, True, hd.Tensor, hd.float32, hd.sort, x, net, opt, captured)]
    assert all(b - a < 25 for a, b in zip(references, now)), (references, now)


def test_arguments_get_their_references_back():
    a = np.ones((8, 8), np.float32)
    shape, index, text = (8, 8), [1, 2, 3], "ij,jk->ik".join(["", ""])
    x = hd.ones(8, 8).realize()
    calls = [
        lambda: hd.tensor(a), lambda: hd.from_numpy(a), lambda: x.reshape(shape), lambda: x[index],
        lambda: hd.einsum(text, x, x), lambda: hd.zeros(shape), lambda: x.sum(dim=0), lambda: x + a,
    ]  # fmt: skip
    for call in calls:
        call()
    before = [sys.getrefcount(each) for each in (a, shape, index, text, x)]
    for _ in range(100):
        for call in calls:
            call()
    gc.collect()
    assert [sys.getrefcount(each) for each in (a, shape, index, text, x)] == before


def test_a_function_that_fails_gives_its_arguments_back():
    class Odd:
        def __index__(self):
            raise KeyError("no")

    odd, x = Odd(), hd.ones(3).realize()
    before = sys.getrefcount(odd), sys.getrefcount(x)
    for call in (lambda: hd.zeros(odd), lambda: x[odd], lambda: x.sum(odd), lambda: hd.stack([x, odd])):
        for _ in range(20):
            with pytest.raises((KeyError, TypeError, ValueError)):
                call()
    gc.collect()
    assert (sys.getrefcount(odd), sys.getrefcount(x)) == before
