"""Ctrl-C ends what takes long, and leaves everything usable."""

import os
import signal
import subprocess
import sys
import time

import pytest

# Whoever started this in the background may have had signals ignored; and nothing may wait for ever.
SETUP = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.alarm(100)
import heddle as hd
n = 1 << 19
a, b = hd.rand(n), hd.rand(n)
hd.realize(a, b)
def pairs(): return hd.exp(a[:, None] * b).sum(1)
def ready(): print("ready", flush=True)
"""

LONG = {
    "realize": "ready(); pairs().realize()",
    "item": "ready(); pairs().sum().item()",
    "numpy": "ready(); memoryview(pairs())",
    "jit": "f = hd.jit(lambda x: hd.exp(x[:, None] * x).sum(1).sum()); ready(); f(a)",
    "while_loop": "ready(); hd.while_loop(lambda x: x < hd.inf, lambda x: hd.sin(x) + 1, hd.tensor(1.0)).item()",
    "compile": "xs = [hd.rand(9 + i, 5 + i).cumsum(0).sum(1) for i in range(400)]; ready(); hd.realize(*xs)",
    "record": "f = hd.jit(lambda x: [x := (x * (i + 0.5)).cumsum(0) for i in range(100000)]); ready(); f(a)",
}
SOON = 5.0  # seconds, of a very busy machine


def start(program):
    child = subprocess.Popen([sys.executable, "-c", SETUP + program], stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "HEDDLE_CACHE": "off"})
    assert child.stdout.readline() == "ready\n"
    return child


def test_ctrl_c_stops_what_takes_long():
    """All in one process: what was interrupted leaves the next one whole."""
    program = "total = a.sum().item()\n"
    for name, code in LONG.items():
        program += f"""
try:
    {code}
    print("not long: {name}", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
assert a.sum().item() == total and (hd.arange(10) * 2).sum().item() == 90
"""
    child = start(program + "print('end', flush=True)")
    for number, name in enumerate(LONG):
        if number:
            assert child.stdout.readline() == "ready\n", name
        time.sleep(0.3)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n", name
        assert time.monotonic() - sent < SOON, name
    assert child.stdout.readline() == "end\n"
    assert child.wait() == 0


def test_the_program_ends_as_others_do():
    child = start("ready(); pairs().realize()")
    time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    assert child.wait(10) == -signal.SIGINT


@pytest.mark.parametrize("handler", ["stop.append", "signal.SIG_IGN"])
def test_a_handler_of_ones_own_lets_the_call_end(handler):
    child = start(f"""
stop = []
signal.signal(signal.SIGINT, {"lambda *_: stop.append(1)" if handler == "stop.append" else handler})
hd.exp(a[:10, None] * b).sum(1).realize()
ready()
deadline = time.monotonic() + 1
while time.monotonic() < deadline: hd.exp(a[:1000, None] * b).sum().item()
print(len(stop), flush=True)
""")
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == ("1\n" if handler == "stop.append" else "0\n")
    assert child.wait() == 0


def test_after_another_handler_was_taken_back():
    child = start("""
import asyncio
async def nothing(): hd.ones(3).sum().item()
asyncio.run(nothing())
ready()
pairs().realize()
""")
    time.sleep(0.2)
    sent = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.wait(10) == -signal.SIGINT
    assert time.monotonic() - sent < SOON


def test_a_ctrl_c_of_before_interrupts_once():
    assert subprocess.run([sys.executable, "-c", SETUP + """
import os
try:
    os.kill(os.getpid(), signal.SIGINT)
    while True: pass
except KeyboardInterrupt:
    print(hd.exp(a[:1000, None] * b).sum().item() > 0)
"""], capture_output=True, text=True, check=True).stdout == "True\n"


def test_other_threads_go_on():
    child = start("""
import threading
results = []
thread = threading.Thread(target=lambda: results.append(hd.exp(a[:3000, None] * b).sum().item()))
thread.start()
ready()
try:
    time.sleep(60)
except KeyboardInterrupt:
    thread.join()
    print(len(results), flush=True)
""")
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    assert child.stdout.readline() == "1\n"
    assert child.wait() == 0
