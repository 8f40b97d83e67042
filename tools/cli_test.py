#!/usr/bin/env python3
"""Tests of the heddle program: cli_test.py PROGRAM CASE."""

import json
import os
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]
KEYS = {"name", "unit", "ours", "reference", "reference_name", "ratio"}
OPTIONAL_KEYS = {"median", "bar"}
FLOOR_KEYS = {"group", "floor", "floor_name", "share", "about_peers"}


def heddle(*arguments, **environment):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, env={**os.environ, **environment})


def check(condition, message, result=None):
    if condition:
        return
    if result is not None:
        message += f"\nexit code {result.returncode}\n--- stdout\n{result.stdout}\n--- stderr\n{result.stderr}"
    sys.exit(f"failed: {message}")


def info():
    result = heddle("info", HEDDLE_THREADS="3", HEDDLE_TREADS="4")
    check(result.returncode == 0, "info runs", result)
    for part in ["version", "commit", "LLVM", "target", "caches", "cores", "cpu", "3 threads", "compiled code"]:
        check(part in result.stdout, f"info says something about '{part}'", result)
    check("HEDDLE_TREADS          is set, but" in result.stdout, "info notices misspelt variables", result)
    check("limit 0" not in result.stdout, "every device has a limit", result)
    check("not here: cuda:" not in result.stdout, "a device is named once", result)
    bad = {"HEDDLE_THREADS": "many", "HEDDLE_TARGET": "foo", "HEDDLE_DEVICE": "gpu", "HEDDLE_LOG": "bad"}
    result = heddle("info", **bad)
    check(result.returncode == 1 and "compiled code" in result.stdout, "info prints what it can", result)
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if "HEDDLE_" in line}
    for name, value in bad.items():
        check(" bad: " in lines[name] and value in lines[name], f"{name} is marked", result)
        check(name in result.stderr, f"{name} is named", result)
    check(" bad: " not in lines["HEDDLE_CHECK"], "what is good is not marked", result)
    columns = {len(line) - len(line[2:].split(" ", 1)[1].lstrip()) for line in lines.values()}
    check(len(columns) == 1, f"values stand in one column, not in {columns}", result)


def unknown_suite():
    result = heddle("bench", "nonsense")
    check(result.returncode == 2, "an unknown suite gives exit code 2", result)
    for part in ["nonsense", "memory", "matmul", "overhead", "all"]:
        check(part in result.stderr, f"the message names '{part}'", result)


def bad_options():
    cases = [
        ([], "subcommand"),
        (["bench"], "SUITE"),
        (["bench", "overhead", "--threads", "0"], "--threads"),
        (["bench", "overhead", "--threads", "two"], "--threads"),
        (["bench", "overhead", "--seconds", "-1"], "--seconds"),
        (["bench", "overhead", "--fast"], "--fast"),
        (["bench", "overhead", "--python", "python3"], "--peers"),
        (["tune"], "SUITE"),
        (["tune", "small", "--trials", "-1"], "--trials"),
        (["weave"], "weave"),
    ]
    for arguments, named in cases:
        result = heddle(*arguments)
        check(result.returncode == 2, f"{arguments} gives exit code 2", result)
        check(named in result.stderr, f"the message for {arguments} names {named}", result)
    result = heddle("bench", "overhead", "--json", "/nonexistent/folder/file.json")
    check(result.returncode == 1 and "/nonexistent/folder" in result.stderr, "a bad file is found at once", result)


def help():  # noqa: A001, named as the option
    result = heddle("bench", "--help")
    check(result.returncode == 0 and "--threads" in result.stdout, "bench --help explains the options", result)
    check("first-result" not in heddle("--help").stdout, "inner commands are hidden")


def profile():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trace.json")
        result = heddle("first-result", HEDDLE_PROFILE=path)
        check(result.returncode == 0, "a program runs while it is profiled", result)
        check("kernel " in result.stderr and f"trace: {path}" in result.stderr, "the table is printed", result)
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        check({event.get("cat") for event in events} >= {"kernel", "call", "compile"}, f"slices in {events}", result)
        check(os.listdir(folder) == ["trace.json"], "nothing else is left", result)
    result = heddle("first-result", HEDDLE_PROFILE="/nonexistent/folder/trace.json")
    check(result.returncode == 0 and "/nonexistent/folder" in result.stderr, "a bad file is named", result)
    check("kernel " not in heddle("first-result").stderr, "nothing is profiled unless wanted")


def dump():
    with tempfile.TemporaryDirectory() as folder:
        result = heddle("first-result", HEDDLE_DUMP=folder)
        check(result.returncode == 0 and result.stderr == "" and os.listdir(folder), "texts are written", result)
    result = heddle("first-result", HEDDLE_DUMP="/proc/x")
    check(result.returncode == 0, "a bad folder stops nothing", result)
    warning = "cannot write to HEDDLE_DUMP=/proc/x: No such file or directory"
    check(result.stderr.count("warning") == 1 and warning in result.stderr, "one warning says why", result)


def null_device():
    result = heddle("first-result", HEDDLE_DEVICE="null")
    check(result.stderr.count("computes nothing") == 1, "the null device says what it does not do", result)
    check("computes nothing" not in heddle("info").stderr, "but only where it is chosen")
    result = heddle("first-result", HEDDLE_DEVICE="null:1")
    check(result.returncode == 1 and "null:1" in result.stderr, "there is one null device", result)


def demo():
    program = os.path.join(os.path.dirname(os.path.abspath(PROGRAM)), "heddle_demo")

    def run(*arguments, **environment):
        # In a folder that nobody can write to, root neither.
        return subprocess.run([program, *arguments], capture_output=True, text=True, env={**os.environ, **environment},
                              cwd="/proc")

    result = run("--help")
    check(result.returncode == 0 and "usage" in result.stdout and "epoch" not in result.stdout, "help only", result)
    result = run("--bogus")
    check(result.returncode == 2 and "--bogus" in result.stderr and result.stdout == "", "no such option", result)
    result = run(HEDDLE_DEVICE="null")
    check(result.returncode == 1 and "computes nothing" in result.stderr, "no training without computing", result)
    result = run()
    check(result.returncode == 0 and "accuracy" in result.stdout, "it works where nothing can be written", result)
    check("digits_loss.svg" in result.stderr and "loss curve  " not in result.stdout, "and says so", result)


def bench_json():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        result = heddle("bench", "overhead", "--seconds", "0.2", "--threads", "2", "--json", path)
        check(result.returncode == 0, "bench runs", result)
        with open(path, encoding="utf-8") as file:
            figures = json.load(file)
    check(isinstance(figures, list) and len(figures) >= 4, "the file holds a list of figures", result)
    for figure in figures:
        check(KEYS <= figure.keys() <= KEYS | OPTIONAL_KEYS, f"keys of {figure}", result)
        check(all(isinstance(figure[key], str) for key in ["name", "unit", "reference_name"]), f"names of {figure}")
        check(all(figure[key] > 0 for key in ["ours", "reference", "ratio"]), f"figures of {figure}")
        check(figure["name"] in result.stdout, f"the table has a row for {figure['name']}", result)
    check(len({figure["name"] for figure in figures}) == len(figures), "names are distinct", result)
    check("overhead, 2 threads" in result.stdout, "the table says how many threads ran", result)
    for part in ["commit", "target", "reference_name"]:
        check(part in result.stdout, f"the table says {part}", result)


def bench_floor():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "figures.json")
        result = heddle("bench", "matmul", "--seconds", "0.05", "--threads", "1", "--only", "f32 64,", "--json", path)
        check(result.returncode == 0, "bench runs", result)
        with open(path, encoding="utf-8") as file:
            figures = json.load(file)
    check([figure["name"] for figure in figures] == ["matmul f32 64, 1 thread"], "--only takes one row", result)
    figure = figures[0]
    check(KEYS | FLOOR_KEYS <= figure.keys(), f"keys of {figure}", result)
    check(0 < figure["share"] < 1.2 and figure["floor_name"] in result.stdout, f"the floor of {figure}", result)
    # With or without the libraries: those that are missing are named.
    told = " ".join(figure["about_peers"])
    check("OpenBLAS" in told and "oneDNN" in told and "beside us: OpenBLAS" in result.stdout, f"peers in {told}", result)
    for peer in figure.get("peers", []):
        check((peer["best"] > 0) != bool(peer["note"]), f"{peer} has a figure or says why not", result)


def bench_only():
    result = heddle("bench", "overhead", "--seconds", "0.05", "--threads", "1", "--only", "a + b on 16")
    check(result.returncode == 0 and "a + b on 16 floats, cached" in result.stdout, "--only takes a row", result)
    check("process start" not in result.stdout and "recording" not in result.stdout, "and no other one", result)
    for suite, row in ("overhead", "process start to first result"), ("compile", "new kernel, mean"):
        result = heddle("bench", suite, "--only", "nonsense")
        check(result.returncode == 1 and "nonsense" in result.stderr and row in result.stderr, "rows are named", result)


def tune():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "cache.sqlite")
        arguments = ["tune", "small", "--only", "x + y, 1024", "--threads", "1", "--trials", "3"]
        result = heddle(*arguments, HEDDLE_CACHE=path)
        check(result.returncode == 0 and "3 tried" in result.stdout, "kernels are tuned", result)
        check("small, 1 thread" in result.stdout and path in result.stdout, "the table says where", result)
        result = heddle(*arguments, HEDDLE_CACHE=path)
        check(result.returncode == 0 and "known" in result.stdout, "what is tuned is not tuned again", result)
        result = heddle(*arguments, "--report", HEDDLE_CACHE=path)
        check(result.returncode == 0 and "geometric mean" in result.stdout, "the report measures", result)
        check("0 kernels" not in result.stdout, "the report has rows", result)
        result = heddle("first-result", HEDDLE_CACHE=os.path.join(folder, "missing", "cache.sqlite"))
        check(result.returncode == 0 and result.stderr == "", "a folder is made where there is none", result)
        for ending in ["-wal", "-shm"]:
            if os.path.exists(path + ending):
                os.remove(path + ending)
        with open(path, "r+b") as file:
            file.seek(100)  # behind the head, by which a cache is known
            file.write(b"nonsense " * 1000)
        result = heddle("first-result", HEDDLE_CACHE=path)
        check(result.returncode == 0 and result.stderr.count("warning") == 1, "a damaged cache is one warning", result)
        check(any(".damaged-" in name for name in os.listdir(folder)), "and is set aside", result)
        precious = os.path.join(folder, "precious")
        os.mkdir(precious)
        result = heddle("first-result", HEDDLE_CACHE=precious)
        check(result.returncode == 0 and "it is no file" in result.stderr, "a folder is no cache", result)
        check(os.path.isdir(precious), "and is left alone", result)
    result = heddle(*arguments, HEDDLE_CACHE="off")
    check(result.returncode == 1 and "HEDDLE_CACHE" in result.stderr, "no place to keep anything", result)
    result = heddle("first-result", HEDDLE_CACHE_SIZE="12")
    check(result.returncode == 0 and result.stderr.count("HEDDLE_CACHE_SIZE='12' should be") == 1,
          "a malformed size is a warning", result)


def tune_wrong():
    only = ["--only", "x + y, 1024", "--threads", "1"]
    with tempfile.TemporaryDirectory() as folder:
        path, cache = os.path.join(folder, "schedules.txt"), os.path.join(folder, "cache.sqlite")
        result = heddle("tune", "small", "--report", "--only", "nosuch", "--threads", "1", HEDDLE_CACHE=cache)
        check(result.returncode == 1 and "nosuch" in result.stderr, "--only that matches nothing is an error", result)
        check("x + y" in result.stderr, "which lists what there is", result)
        result = heddle("tune", "small", "--report", *only, HEDDLE_CACHE=cache)
        check(result.returncode == 0 and "no kernel of these is tuned" in result.stdout, "nothing is tuned", result)

        def attempt(content):
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
            return heddle("tune", "small", *only, "--try", path)

        result = attempt("\nno colon here\n")
        check(result.returncode == 1 and f"{path}:2" in result.stderr, "a line without a colon is named", result)
        result = attempt("nosuchkernel: unroll 4\n")
        check(result.returncode == 1 and "'nosuchkernel'" in result.stderr, "a name of no kernel is named", result)
        check("add" in result.stderr, "and kernels are listed", result)
        result = attempt("add: nonsense\n")
        check(result.returncode == 1 and "WRONG" in result.stdout, "a wrong schedule is no success", result)
        default = [line for line in result.stdout.splitlines() if " us  " in line][0].split(" us  ")[1]
        result = attempt(f"add: {default}\n")
        check(result.returncode == 0 and result.stdout.count(default) == 2, "a good one is measured", result)


def bench_rows():
    result = heddle("bench", "matmul", "--rows", "--only", "f32 1024")
    check(result.returncode == 0, "rows are listed", result)
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    check(len(rows) == 4 and all(row["row"]["m"] == 1024 and row["flops"] == 2**31 for row in rows), "rows", result)
    check({row["row"]["transpose"] for row in rows} == {"nn", "nt", "tn", "tt"}, "transpositions", result)
    start = time.monotonic()
    result = heddle("bench", "small", "--rows")
    check(result.returncode == 1 and result.stdout == "", "a suite without rows lists none", result)
    check("small" in result.stderr and "matmul" in result.stderr, "and says which ones have some", result)
    check(time.monotonic() - start < 10, "without measuring", result)


def bench_remarks():
    result = heddle("bench", "small", "--remarks", "--only", "softmax", "--seconds", "0.01")
    check(result.returncode == 0, "remarks are no error", result)
    check("[heddle remarks] a plan of " in result.stderr, "each plan has remarks", result)


# A peer that knows one work and counts its calls.
FAKE_PEER = """
import sys
sys.path.insert(0, {folder!r})
from peer import Missing, Skip, main
calls = []
def load(arguments):
    print("a library's own message")
    if arguments.threads == 3:
        raise Missing("no library")
    def matmul(row):
        if row["m"] > 9:
            raise Skip("too large")
        return lambda: calls.append(1)
    return dict(about="1.0", works=dict(matmul=matmul))
main("fake", load)
"""


def peer_protocol():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench/peers")

    def fake(lines, *arguments):
        with tempfile.TemporaryDirectory() as temporary:
            path = os.path.join(temporary, "fake.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(FAKE_PEER.format(folder=folder))
            text = "".join(json.dumps(line) + "\n" for line in lines)
            result = subprocess.run([sys.executable, path, *arguments], input=text, capture_output=True, text=True)
        check(result.returncode == 0, "the peer runs", result)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def row(work, m):
        return {"row": {"work": work, "m": m}}

    asked = [row("matmul", 4), {"seconds": 0.01}, row("matmul", 10), row("conv", 4)]
    hello, ready, times, large, unknown = fake(asked, "--serve", "--threads", "1")
    check(hello == {"name": "fake", "about": "1.0"} and ready == {"ready": True}, f"{hello} {ready}")
    check(len(times["times"]) > 1 and min(times["times"]) > 0, f"{times}")
    check(large == {"skip": "too large"} and unknown == {"skip": "no conv"}, f"{large} {unknown}")
    missing = fake(asked, "--serve", "--threads", "3")
    check(missing == [{"name": "fake", "missing": "not installed (no library)"}], f"{missing}")
    listed = fake([{"name": "a", "flops": 8, **row("matmul", 4)}, {"name": "b", **row("conv", 4)}], "--seconds", "0.01")
    check(listed[0]["name"] == "a" and listed[0]["gflops"] > 0 and listed[0]["best"] > 0, f"{listed}")
    check("no conv" in listed[1]["skip"], f"{listed}")


def bench_peers():
    with tempfile.TemporaryDirectory() as folder:
        # An interpreter without any packages: everybody is missing, and named.
        python = os.path.join(folder, "python")
        with open(python, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        os.chmod(python, 0o755)
        result = heddle("bench", "matmul", "--seconds", "0.05", "--threads", "1", "--only", "f32 64,", "--peers",
                        "--python", python)
    check(result.returncode == 0, "bench runs without the peers", result)
    for name in ["PyTorch", "torch.compile", "JAX", "ONNX Runtime", "tinygrad"]:
        check(f"beside us: {name}: not installed" in result.stdout, f"{name} is named", result)
    result = heddle("bench", "small", "--peers", "--python", "/nonexistent/python")
    check(result.returncode == 1 and "/nonexistent/python" in result.stderr, "the interpreter is missing", result)


{
    "info": info,
    "unknown_suite": unknown_suite,
    "bad_options": bad_options,
    "help": help,
    "profile": profile,
    "dump": dump,
    "null_device": null_device,
    "demo": demo,
    "bench_json": bench_json,
    "bench_floor": bench_floor,
    "bench_only": bench_only,
    "tune": tune,
    "tune_wrong": tune_wrong,
    "bench_remarks": bench_remarks,
    "bench_rows": bench_rows,
    "bench_peers": bench_peers,
    "peer_protocol": peer_protocol,
}[sys.argv[2]]()
