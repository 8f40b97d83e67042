"""What calls from Python cost, in microseconds: python3 bench/python/overhead.py, with heddle on the path."""

import subprocess
import sys
import time

import numpy as np

import heddle as hd


def best(f, calls, rounds=7):
    """The least time of one call."""
    f()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            f()
        times.append((time.perf_counter() - begin) / calls)
    return min(times) * 1e6


def import_time():
    program = "import time; t = time.perf_counter(); import heddle; print((time.perf_counter() - t) * 1e6)"
    run = lambda: float(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)  # noqa: E731
    return min(run() for _ in range(5))


def training_step():
    a, b = hd.nn.Linear(4, 4), hd.nn.Linear(4, 4)
    parameters = a.parameters() + b.parameters()
    opt = hd.optim.AdamW(parameters, lr=1e-3)

    @hd.jit
    def step(x, t):
        loss = hd.cross_entropy(b(a(x).relu()), t)
        opt.step(hd.grad(loss, parameters))
        return loss

    x, t = hd.ones(2, 4).realize(), hd.zeros(2, dtype="int64").realize()
    for _ in range(5):
        step(x, t)
    return best(lambda: step(x, t), 5000)


def main():
    a, b = hd.ones(16).realize(), hd.ones(16).realize()
    large = hd.zeros(1 << 28).realize()
    replay = hd.jit(lambda x, y: x + y)
    for _ in range(3):
        replay(a, b)
    rows = [
        ("import heddle", import_time()),
        ("a + b, recorded", best(lambda: a + b, 100000)),
        ("a.sum(dim=0), recorded", best(lambda: a.sum(dim=0), 100000)),
        ("a[2:7]", best(lambda: a[2:7], 100000)),
        ("(a + b).numpy() of 16 floats", best(lambda: (a + b).numpy(), 20000)),
        ("a captured a + b", best(lambda: replay(a, b), 20000)),
        ("a captured training step of a tiny perceptron", training_step()),
        ("np.asarray(x) of 1 GB", best(lambda: np.asarray(large), 20000)),
        ("np.from_dlpack(x) of 1 GB", best(lambda: np.from_dlpack(large), 20000)),
    ]
    for name, microseconds in rows:
        print(f"{microseconds:10.2f}  {name}")


if __name__ == "__main__":
    main()
