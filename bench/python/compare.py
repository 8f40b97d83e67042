"""The snippets of users, in Heddle and three others: build/peers-venv/bin/python bench/python/compare.py.

Each library is a process of its own, and stopped while the others run: threads that spin would take their cores. All
take turns in short segments, so that a slow minute of the machine is everybody's. Results are compared with NumPy's.
"""

import argparse
import json
import math
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
LIBRARIES = ("heddle", "torch", "jax", "numpy")
PEERS = LIBRARIES[1:]


class Library:
    def __init__(self, name, threads, cores):
        environment = dict(os.environ, HEDDLE_SNIPPETS_OF=name, HEDDLE_SNIPPETS_THREADS=str(threads))
        environment.update({f"{each}_NUM_THREADS": str(threads) for each in ("OMP", "OPENBLAS")})
        environment["HEDDLE_THREADS"] = str(threads)
        # AMX instructions of this library stop some virtual machines that say they have them.
        environment.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")
        self.process = subprocess.Popen(
            ["taskset", "-c", cores, sys.executable, str(FOLDER / "worker.py")],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.version = json.loads(self.process.stdout.readline())["version"]
        self.stop()

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def ask(self, **order):
        self.process.send_signal(signal.SIGCONT)
        print(json.dumps(order), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{order}: the process of a library ended with {self.process.wait()}")
        self.stop()
        return json.loads(line)

    def end(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.close()
        self.process.wait()


def arrays(path):
    import numpy as np

    with np.load(path) as file:
        return [file[name] for name in file.files]


def measure(snippet, libraries, rounds, seconds):
    """By library: the way it is called, the best time of a call, the median."""
    name, ways, results = type(snippet).__name__, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for library, process in libraries.items():
            file = f"{folder}/{library}.npz"
            answer = process.ask(prepare=name, file=file)
            if "error" in answer:
                print(f"{name}: {library}: {answer['error']}", file=sys.stderr)
                continue
            for problem in answer["problems"]:
                print(f"{name}: {library}: {problem}", file=sys.stderr)
            ways[library], results[library] = answer["way"], arrays(file)
    wrong = [each for each in results if not snippet.same(results[each], results["numpy"])]
    times = {each: [] for each in ways}
    for _ in range(rounds):
        for each in times:
            times[each] += libraries[each].ask(seconds=seconds)
    return {each: (ways[each], min(t), statistics.median(t)) for each, t in times.items()}, wrong


def duration(seconds):
    return f"{seconds * 1e6:8.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:8.2f} ms"


def machine():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def commit():
    run = subprocess.run(["git", "-C", FOLDER, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return run.stdout.strip() or "unknown"


def report(name, row):
    best_of = lambda column: min((row[each][column], each) for each in PEERS if each in row)  # noqa: E731
    (best, winner), (median, _) = best_of(1), best_of(2)
    ratio = best / row["heddle"][1]
    columns = "".join(f"{duration(row[each][1]) if each in row else '-':>13}" for each in LIBRARIES)
    print(f"{name:24}{columns}  {ratio:7.2f}  {median / row['heddle'][2]:7.2f}   {winner} {row[winner][0]}", flush=True)
    return ratio


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("names", nargs="*", help="snippets; all otherwise")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--rounds", type=int, default=12, help="segments of each library")
    arguments.add_argument("--seconds", type=float, default=0.05, help="of one segment")
    chosen = arguments.parse_args()
    from snippets import ALL

    unknown = set(chosen.names) - {type(each).__name__ for each in ALL}
    if unknown:
        sys.exit(f"there is no snippet {', '.join(sorted(unknown))}")
    cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[: chosen.threads])
    libraries = {name: Library(name, chosen.threads, cores) for name in LIBRARIES}
    versions = ", ".join(f"{each} {libraries[each].version}" for each in PEERS)
    print(f"heddle {commit()}; {versions}; {machine()}, {chosen.threads} threads; best of {chosen.rounds} segments")
    print(f"{'':24}" + "".join(f"{each:>13}" for each in LIBRARIES) + "    ratio   median   best of the others")
    ratios, failures = {}, []
    for snippet in ALL:
        name = type(snippet).__name__
        if chosen.names and name not in chosen.names:
            continue
        row, wrong = measure(snippet, libraries, chosen.rounds, chosen.seconds)
        failures += [f"{name}: {each} disagrees with NumPy" for each in wrong]
        failures += [f"{name}: not in {each}" for each in LIBRARIES if each not in row]
        if "heddle" in row:
            ratios[name] = report(name, row)
    for process in libraries.values():
        process.end()
    print(f"geometric mean of {len(ratios)}: {math.exp(statistics.fmean(map(math.log, ratios.values()))):.2f}")
    slow = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio < 0.8]
    print("under 0.8: " + (", ".join(slow) or "none"))
    for failure in failures:
        print(failure)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
