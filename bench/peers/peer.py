"""What the peers in Python share: the protocol of README.md, timing, and numbers.

A peer is a script that calls main() with its name and a function that loads the library and returns
{"about": version, "works": {"matmul": function(row), ...}}. Each function makes the inputs of a row and returns what is
timed, or raises Skip.
"""

import argparse
import json
import os
import statistics
import sys
import time


class Skip(Exception):
    """The peer cannot do this row; the text stands in the table."""


class Missing(Exception):
    """The peer is not installed."""


def calls_per_sample(action):
    """How many calls one sample holds, so that reading the clock costs nothing beside them."""
    action()
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            action()
        if time.perf_counter() - start >= 50e-6:
            return calls
        calls *= 2


def segment(action, calls, seconds):
    """Seconds of one call, again and again for about `seconds`. The first calls do not count, unless they are long."""
    if hasattr(action, "restore"):  # undoes what calls before have changed
        action.restore()
    start = time.perf_counter()
    action()
    first = time.perf_counter() - start
    if first > seconds / 4:
        times = [first]
    else:
        times = []
        while time.perf_counter() - start < seconds / 10:
            action()
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            action()
        times.append((time.perf_counter() - start) / calls)
    return times


def find_work(works, row):
    if row["work"] not in works:
        raise Skip(f"no {row['work']}")
    return works[row["work"]](row)


def serve(works, answer):
    """Answers lines from standard input until it ends."""
    action, calls = None, 1
    for line in sys.stdin:
        message = json.loads(line)
        if "row" not in message:
            answer({"times": segment(action, calls, message["seconds"])})
            continue
        action = None  # its memory goes first
        try:
            action = find_work(works, message["row"])
            calls = calls_per_sample(action)
            answer({"ready": True})
        except Skip as skip:
            answer({"skip": str(skip)})
        except Exception as error:  # a library's own exceptions are many; the table says which
            answer({"skip": f"{type(error).__name__}: {error}".splitlines()[0][:80]})


def measure_rows(name, works, seconds, answer):
    """One line for each row of `heddle bench SUITE --rows` on standard input."""
    for line in sys.stdin:
        listed = json.loads(line)
        result = {"name": listed["name"], "peer": name}
        try:
            action = find_work(works, listed["row"])
            times = segment(action, calls_per_sample(action), seconds)
            result |= {"unit": "ms", "best": min(times) * 1e3, "median": statistics.median(times) * 1e3}
            if listed.get("flops"):
                result["gflops"] = listed["flops"] / min(times) * 1e-9
        except Exception as error:  # as above
            result["skip"] = f"{type(error).__name__}: {error}".splitlines()[0][:80]
        answer(result)


def main(name, load, options=()):
    parser = argparse.ArgumentParser(description=f"{name} beside Heddle; see README.md")
    parser.add_argument("--serve", action="store_true", help="answer the lines that heddle bench sends")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row, without --serve")
    for option in options:
        parser.add_argument(option, action="store_true")
    arguments = parser.parse_args()

    # Libraries print warnings where they like; only answers go to standard output.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(json_value):
        out.write(json.dumps(json_value) + "\n")
        out.flush()

    # Before the library is loaded. Some have no switch for threads but count cores.
    threads = str(arguments.threads)
    for variable in ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"]:
        os.environ[variable] = threads
    if arguments.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[: arguments.threads])
    try:
        loaded = load(arguments)
    except (ImportError, Missing) as error:
        answer({"name": name, "missing": f"not installed ({error})"})
        return
    if arguments.serve:
        answer({"name": name, "about": loaded["about"]})
        serve(loaded["works"], answer)
    else:
        measure_rows(name, loaded["works"], arguments.seconds, answer)
