"""One library of the comparison, in a process of its own. Lines of JSON from standard input are its orders:

    {"prepare": "softmax", "file": PATH}    compiles, computes once, writes the results as npz; answers how it is called
    {"seconds": 0.05}                       calls for so long; answers the times of single calls

HEDDLE_SNIPPETS_OF names the library: heddle, torch, jax, numpy.
"""

import json
import os
import sys
import time

import numpy as np

LIBRARY = os.environ["HEDDLE_SNIPPETS_OF"]


def heddle_library(threads):
    import heddle as hd

    def given(array):
        # The library keeps what begins at a multiple of 64 bytes; a copy does.
        return hd.tensor(array).realize()

    def finish(results):
        for result in results:
            result.realize()

    return hd.__name__, given, finish, [("captured", hd.jit)], lambda x: x.numpy()


def torch_library(threads):
    import torch

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    ways = [("compiled", torch.compile), ("eager", lambda f: f)]
    return torch.__version__, torch.from_numpy, lambda results: None, ways, lambda x: x.detach().numpy()


def jax_library(threads):
    import jax

    return jax.__version__, jax.numpy.asarray, jax.block_until_ready, [("compiled", jax.jit)], np.asarray


def numpy_library(threads):
    return np.__version__, lambda array: array, lambda results: None, [("plain", lambda f: f)], np.asarray


def as_list(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


class Worker:
    def __init__(self, threads):
        from snippets import ALL

        self.snippets = {type(each).__name__: each for each in ALL}
        library = {"heddle": heddle_library, "torch": torch_library, "jax": jax_library, "numpy": numpy_library}[LIBRARY]
        self.version, self.given, self.finish, self.ways, self.array = library(threads)

    def call(self, f):
        self.finish(as_list(f(*self.arguments)))

    def prepare(self, name, file):
        snippet = self.snippets[name]
        self.arguments = [self.given(array) for array in snippet.inputs(np.random.default_rng(1))]
        plain = getattr(snippet, LIBRARY)
        calls, problems = {}, []
        for way, transform in [("plain", lambda f: f)] if LIBRARY in snippet.plain else self.ways:
            try:
                f = transform(plain)
                for _ in range(3):
                    self.call(f)
                if way == "compiled" and len(self.ways) > 1 and not snippet.same(self.results(f), self.results(plain)):
                    problems.append("compiled: another result than eager; not taken")
                    continue
                calls[self.time_once(f)] = way, f
            except Exception as error:  # a compiler of one version may not take a program; the other way is there
                problems.append(f"{way}: {type(error).__name__}: {error}"[:300])
        if not calls:
            return {"error": "; ".join(problems)}
        way, self.f = calls[min(calls)]
        np.savez(file, *self.results(self.f))
        return {"way": way, "problems": problems}

    def results(self, f):
        return [np.asarray(self.array(each)) for each in as_list(f(*self.arguments))]

    def time_once(self, f):
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            self.call(f)
            times.append(time.perf_counter() - begin)
        return min(times)

    def run(self, seconds):
        """The first call wakes threads and fills caches: it does not count unless it is the only one."""
        times, end = [], time.perf_counter() + seconds
        while len(times) < 2 or time.perf_counter() < end:
            begin = time.perf_counter()
            self.call(self.f)
            times.append(time.perf_counter() - begin)
        return times[1:]


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    worker = Worker(int(os.environ["HEDDLE_SNIPPETS_THREADS"]))
    print(json.dumps({"version": worker.version}), file=answers)
    for line in sys.stdin:
        order = json.loads(line)
        answer = worker.prepare(order["prepare"], order["file"]) if "prepare" in order else worker.run(order["seconds"])
        print(json.dumps(answer), file=answers)


main()
