#!/usr/bin/env python3
"""Runs gtest programs with many processes, each test under a time limit, and prints a short summary.

    run_tests.py [--jobs 14] [--limit 60] [--total 240] [--filter PATTERN] [--lines 6] PROGRAM...

A process takes a few tests. One that crashes or hangs costs only the test it was in: the others of that process run
again without it. What is not done after --total seconds counts as failed. Programs that take longest come first on the
command line. Exit status 1 if anything failed. For machines where a suite of one process takes too long (a GPU, where
every kernel is assembled), and for a device that a single test can break.
"""

import argparse
import collections
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time

RUN = re.compile(rb"^\[ RUN      \] (\S+)")
END = re.compile(rb"^\[\s+(OK|FAILED|SKIPPED)\s+\] ([^\s,]+).* \((\d+) ms\)")


def list_tests(program, pattern):
    listed = subprocess.run([program, "--gtest_list_tests", f"--gtest_filter={pattern}"], capture_output=True, text=True)
    if listed.returncode != 0:
        sys.exit(f"run_tests: {program} does not list its tests: {listed.stderr.strip() or listed.returncode}")
    suite, tests = "", []
    for line in listed.stdout.splitlines():
        name = line.split("#")[0].rstrip()
        if name and not name.startswith(" "):
            suite = name if name.endswith(".") else ""
        elif name and suite and not name.strip().startswith("DISABLED_"):
            tests.append(suite + name.strip())
    return tests


class Runner:
    def __init__(self, options):
        self.options = options
        self.begin = time.monotonic()
        self.work = collections.deque()
        self.lock = threading.Lock()
        self.results = {}  # (program, test): (outcome, seconds, lines)

    def note(self, program, test, outcome, seconds, lines):
        with self.lock:
            self.results[(program, test)] = (outcome, seconds, lines)

    def over(self):
        return time.monotonic() - self.begin > self.options.total

    def worker(self):
        while not self.over():
            with self.lock:
                if not self.work:
                    return
                program, tests = self.work.popleft()
            while tests and not self.over():
                tests = self.run(program, tests)

    def run(self, program, tests):
        """Runs these; returns those that are left because one crashed or took too long."""
        process = subprocess.Popen([program, "--gtest_color=no", "--gtest_filter=" + ":".join(tests)],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        left, now, since, lines = list(tests), None, time.monotonic(), []
        rest = b""
        os.set_blocking(process.stdout.fileno(), False)
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            stopped = ""
            while True:
                ready.select(timeout=0.5)
                part = process.stdout.read()
                if part == b"":
                    break
                *whole, rest = (rest + part).split(b"\n") if part else (rest,)
                for line in whole:
                    if match := RUN.match(line):
                        now, since, lines = match[1].decode(), time.monotonic(), []
                    elif (match := END.match(line)) and match[2].decode() == now:
                        self.note(program, now, match[1].decode(), int(match[3]) / 1000, lines)
                        left.remove(now)
                        now, since = None, time.monotonic()
                    else:
                        lines.append(line.decode(errors="replace"))
                if time.monotonic() - since > self.options.limit or self.over():
                    stopped = "OVER" if self.over() else "TIMEOUT"
                    os.killpg(process.pid, signal.SIGKILL)
                    break
        process.wait()
        if stopped == "OVER":
            return left
        if now is None and left and len(left) == len(tests):  # does not even begin
            now = left[0]
        if now is not None:
            what = stopped or f"exit status {process.returncode}"
            self.note(program, now, "TIMEOUT" if stopped else "CRASHED", time.monotonic() - since, [what, *lines])
            left.remove(now)
        return left

    def run_all(self, programs):
        for program in programs:
            tests = list_tests(program, self.options.filter)
            for test in tests:
                self.results[(program, test)] = ("NOT RUN", 0.0, [])
            # Neighbours are often alike; a process gets tests from everywhere.
            count = max(1, min(len(tests), 4 * self.options.jobs, len(tests) // 3))
            self.work.extend((program, tests[i::count]) for i in range(count))
        threads = [threading.Thread(target=self.worker) for _ in range(self.options.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def summary(self):
        bad = [(key, value) for key, value in self.results.items() if value[0] not in ("OK", "SKIPPED")]
        for (program, test), (outcome, seconds, lines) in bad:
            print(f"{outcome} {os.path.basename(program)} {test} ({seconds:.1f} s)")
            wanted = [line for line in lines if line.strip()]
            for line in wanted[:self.options.lines]:
                print("    " + line.strip()[:self.options.width])
        skipped = collections.Counter()
        for (_, _), (outcome, _, lines) in self.results.items():
            if outcome == "SKIPPED":
                reason = [line for line in lines if line.strip() and not re.match(r"^\S+:\d+: Skipped", line)]
                skipped[reason[0].strip() if reason else "no reason given"] += 1
        for reason, count in skipped.most_common():
            print(f"skipped {count}: {reason[:self.options.width]}")
        for program in dict.fromkeys(program for program, _ in self.results):
            of = [value for (p, _), value in self.results.items() if p == program]
            counts = collections.Counter(value[0] for value in of)
            slow = sorted(((v[1], t) for (p, t), v in self.results.items() if p == program), reverse=True)[:3]
            print(f"{os.path.basename(program)}: " + ", ".join(f"{n} {what}" for what, n in counts.items()) +
                  f"; {sum(v[1] for v in of):.0f} s of work; longest: " + ", ".join(f"{t} {s:.0f} s" for s, t in slow))
        print(f"{len(self.results)} tests in {time.monotonic() - self.begin:.0f} s: " +
              (f"{len(bad)} failed" if bad else "all passed or skipped"))
        return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--limit", type=float, default=60, help="seconds for one test")
    parser.add_argument("--total", type=float, default=3600, help="seconds for everything")
    parser.add_argument("--filter", default="*", help="as --gtest_filter")
    parser.add_argument("--lines", type=int, default=6, help="printed for each failure")
    parser.add_argument("--width", type=int, default=160)
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    runner = Runner(options)
    runner.run_all(options.programs)
    sys.exit(runner.summary())


if __name__ == "__main__":
    main()
