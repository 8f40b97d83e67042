"""Calls every public function, class and method with odd arguments. No input may crash the interpreter, and only the
exceptions of docs/python.md may come out.

    PYTHONPATH=build/dev/python build/venv/bin/python tests/python/fuzz_arguments.py --seconds 60 [--begin N]
    ... fuzz_arguments.py --case N        one of them again, in this process

Each case is made from its number alone. They run in a process of their own that notes the number first: who finds that
process dead knows which one it was, and goes on with the next.
"""

import argparse
import array
import faulthandler
import inspect
import io
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np

import heddle as hd
from heddle import nn

EXPECTED = (hd.Error, TypeError, ValueError, IndexError, OverflowError)
EXPECTED += (AttributeError, RecursionError)  # Python's own: of an object that is no tensor, of too deep a nesting
EXPECTED += (NotImplementedError, BufferError)  # of memory that its owner does not show
LONGEST_CALL = 60
MEMORY = 8 << 30


class Planned(Exception):
    """Raised by our own odd objects: it has to come through."""


class Odd:
    """An object whose special methods give what they should not, or raise."""

    def __init__(self, **methods):
        self._text = f"Odd({', '.join(methods)})"
        self.__class__ = type("Odd", (Odd,), {f"__{name}__": value for name, value in methods.items()})

    def __repr__(self):
        return self._text


def refuse(*args, **kwargs):
    raise Planned


def recursive_list():
    x = [1.0]
    x.append(x)
    return x


def recursive_dict():
    x = {}
    x["x"] = x
    return x


def deep_list():
    x = 1
    for _ in range(5000):
        x = [x]
    return x


class Text(str):
    pass


class Whole(int):
    pass


class Derived(hd.Tensor):
    pass


def unborn(kind):
    """An object whose __init__ was never called."""
    return kind.__new__(kind)


# Each is made anew for each case: calls may change them. Names are for messages.
TENSORS = {
    "ones(2, 3)": lambda: hd.ones(2, 3),
    "arange(12) as i64[3, 4]": lambda: hd.arange(12).reshape(3, 4),
    "randn(4, 4)": lambda: hd.randn(4, 4),
    "zeros()": lambda: hd.zeros(()),
    "zeros(0, 3)": lambda: hd.zeros(0, 3),
    "bool[3]": lambda: hd.tensor([True, False, True]),
    "u8[5]": lambda: hd.tensor([0, 1, 2, 254, 255], dtype="uint8"),
    "i32[2] out of range": lambda: hd.tensor([2**31 - 1, -5], dtype="int32"),
    "f16[2, 2]": lambda: hd.ones(2, 2, dtype="float16"),
    "bf16[1, 1, 1, 1]": lambda: hd.ones(1, 1, 1, 1, dtype="bfloat16"),
    "f8[4]": lambda: hd.ones(4, dtype="float8_e4m3"),
    "f64[3] nan": lambda: hd.tensor(np.array([np.nan, np.inf, -0.0])),
    "wanting gradients": lambda: hd.randn(3, 3, requires_grad=True),
    "image": lambda: hd.rand(1, 2, 5, 5),
    "Derived": lambda: Derived(hd.ones(2)),
    "Parameter": lambda: nn.Parameter(hd.ones(3, 2)),
}
NUMBERS = {
    repr(value): (lambda value=value: value)
    for value in (
        *(0, 1, -1, 2, 3, 5, 127, -128, 2**33, 2**62, 2**63 - 1, -(2**63), 2**64, 10**40, True, False),
        *(0.0, -0.0, 0.5, -1.5, 1e308, 1e-310, float("nan"), float("inf"), float("-inf"), 1j),
    )
}
ODD = {
    "None": lambda: None,
    "Ellipsis": lambda: ...,
    "''": lambda: "",
    "'sum'": lambda: "sum",
    "'float32'": lambda: "float32",
    "'cpu'": lambda: "cpu",
    "'ij,jk->ik'": lambda: "ij,jk->ik",
    "'mean'": lambda: "mean",
    "zero character": lambda: "a\0b",
    "lone surrogate": lambda: "\ud800",
    "long text": lambda: "ij," * 5000,
    "Text('reflect')": lambda: Text("reflect"),
    "Whole(2)": lambda: Whole(2),
    "bytes": lambda: b"abc",
    "bytearray": lambda: bytearray(b"abcd"),
    "[]": lambda: [],
    "()": lambda: (),
    "{}": lambda: {},
    "[[]]": lambda: [[]],
    "[1, [2]]": lambda: [1, [2]],
    "[1, 2]": lambda: [1, 2],
    "(0, 1)": lambda: (0, 1),
    "(0, 0)": lambda: (0, 0),
    "[-1, 3]": lambda: [-1, 3],
    "(2**40, 2**40)": lambda: (2**40, 2**40),
    "[0.5, None]": lambda: [0.5, None],
    "[None]": lambda: [None],
    "['a', 'b']": lambda: ["a", "b"],
    "many sizes": lambda: (1,) * 70,
    "many axes": lambda: tuple(range(200)),
    "tensors": lambda: [hd.ones(2), hd.ones(2)],
    "tensors that differ": lambda: (hd.ones(2), hd.ones(3, dtype="int64")),
    "tensor and None": lambda: [hd.ones(2), None],
    "{'a': tensor}": lambda: {"a": hd.ones(2)},
    "{1: tensor}": lambda: {1: hd.ones(2)},
    "set": lambda: {1, 2},
    "range": lambda: range(3),
    "huge range": lambda: range(2**60),
    "slice": lambda: slice(None, 2**70, -1),
    "slice of texts": lambda: slice("a", [], 1.5),
    "generator": lambda: (i for i in range(3)),
    "object": lambda: object(),
    "class": lambda: int,
    "module": lambda: sys,
    "function": lambda: lambda *args: args[0] if args else None,
    "function that raises": lambda: refuse,
    "function of nothing": lambda: lambda: None,
    "recursive list": recursive_list,
    "recursive dict": recursive_dict,
    "deep list": deep_list,
    "index raises": lambda: Odd(index=refuse),
    "index huge": lambda: Odd(index=lambda self: 2**100),
    "index text": lambda: Odd(index=lambda self: "a"),
    "float raises": lambda: Odd(float=refuse),
    "len raises": lambda: Odd(len=refuse, getitem=lambda self, i: 1),
    "len negative": lambda: Odd(len=lambda self: -1, getitem=lambda self, i: 1),
    "len too large": lambda: Odd(len=lambda self: 2**62, getitem=refuse),
    "len that lies": lambda: Odd(len=lambda self: 3, getitem=lambda self, i: [][i]),
    "iter raises": lambda: Odd(iter=refuse),
    "array raises": lambda: Odd(array=refuse),
    "array gives junk": lambda: Odd(array=lambda self, *a, **k: "no array"),
    "array gives itself": lambda: Odd(array=lambda self, *a, **k: self),
    "dlpack raises": lambda: Odd(dlpack=refuse, dlpack_device=lambda self: (1, 0)),
    "dlpack junk": lambda: Odd(dlpack=lambda self, **k: 5, dlpack_device=lambda self: (1, 0)),
    "dlpack device junk": lambda: Odd(dlpack=lambda self, **k: 5, dlpack_device=lambda self: "cpu"),
    "repr raises": lambda: Odd(repr=refuse),
    "hash raises": lambda: Odd(hash=refuse, eq=refuse),
    "bool raises": lambda: Odd(bool=refuse),
    "np object": lambda: np.array([None, "a"], dtype=object),
    "np structured": lambda: np.zeros(3, dtype=[("a", "f4"), ("b", "i8")]),
    "np complex": lambda: np.ones(2, dtype=complex),
    "np datetime": lambda: np.zeros(2, dtype="M8[s]"),
    "np text": lambda: np.array(["a", "bc"]),
    "np big-endian": lambda: np.arange(6, dtype=">f4").reshape(2, 3)[::-1, ::2],
    "np broadcast": lambda: np.broadcast_to(np.float32(1), (3, 4)),
    "np huge": lambda: np.broadcast_to(np.float32(1), (2**31, 2**20)),
    "np long double": lambda: np.ones(2, dtype=np.longdouble),
    "np scalar": lambda: np.int8(3),
    "np.float32": lambda: np.float32,
    "hd.int8": lambda: hd.int8,
    "array.array": lambda: array.array("d", [1.0, 2.0]),
    "memoryview": lambda: memoryview(np.arange(6.0).reshape(2, 3)),
    "released memoryview": lambda: (lambda view: (view.release(), view)[1])(memoryview(b"abc")),
    "Generator": lambda: hd.Generator(3),
    "Linear": lambda: nn.Linear(3, 3),
    "captured": lambda: hd.jit(lambda x: x + 1),
    "Dim": lambda: hd.dim("n", 1, 8),
    "unborn Tensor": lambda: unborn(hd.Tensor),
    "unborn Generator": lambda: unborn(hd.Generator),
    "unborn Linear": lambda: unborn(nn.Linear),
    "unborn AdamW": lambda: unborn(hd.optim.AdamW),
    "unborn Captured": lambda: unborn(hd.Captured),
}
SMALL = {text: make for text, make in NUMBERS.items() if isinstance(make(), (int, float)) and abs(make()) < 4}
GROUPS = ((TENSORS, 0.4), (NUMBERS, 0.3), (ODD, 0.3))
NEARLY_RIGHT = ((TENSORS, 0.55), (SMALL, 0.4), (ODD, 0.05))  # gets further inside

# They change the process, write files, or wait.
LEFT_OUT = {"set_default_device", "set_deterministic", "set_relaxed", "allow_tf32", "forget_recordings", "save"}
LEFT_OUT |= {"save_safetensors", "save_checkpoint", "profile", "Profile", "progress", "while_loop", "array_api", "load"}


def public(owner):
    return [name for name in sorted(dir(owner)) if not name.startswith("_") and name not in LEFT_OUT]


def subjects():
    """(text, function or class, makers of what stands first)."""
    result = []
    for prefix, owner in (
        ("hd", hd),
        ("hd.array_api", hd.array_api),
        ("hd.array_api.linalg", hd.array_api.linalg),
        ("nn", nn),
        ("nn.functional", nn.functional),
        ("nn.init", nn.init),
        ("optim", hd.optim),
        ("optim.lr_scheduler", hd.optim.lr_scheduler),
        ("utils.data", hd.utils.data),
        ("data", hd.data),
    ):
        for name in public(owner):
            value = getattr(owner, name)
            if callable(value) and not (isinstance(value, type) and issubclass(value, BaseException)):
                result.append((f"{prefix}.{name}", value, ()))
    tensors = tuple(TENSORS.values()) + (ODD["unborn Tensor"],)
    special = "getitem setitem len iter contains bool int float index complex format array copy deepcopy reduce_ex dlpack"
    special += " add radd iadd sub mul matmul rmatmul truediv floordiv mod pow rpow and or xor invert lshift eq lt divmod"
    special += " array_namespace array_ufunc array_function dlpack_device repr str hash init setstate"
    methods = public(hd.Tensor) + [f"__{name}__" for name in special.split()]
    for name in methods:
        if callable(getattr(hd.Tensor, name, None)):
            result.append((f"Tensor.{name}", getattr(hd.Tensor, name), tensors))
    others = {
        "Linear": lambda: nn.Linear(3, 2),
        "Sequential": lambda: nn.Sequential(nn.Linear(3, 3), nn.ReLU()),
        "AdamW": lambda: hd.optim.AdamW([hd.ones(2, requires_grad=True)]),
        "Generator": lambda: hd.Generator(1),
        "Captured": lambda: hd.jit(lambda *args, **kwargs: args[0] * 2),
        "grad of a function": lambda: hd.grad(lambda x: (x * x).sum()),
        "vmap of a function": lambda: hd.vmap(lambda x: x + 1),
        "Schedule": lambda: hd.optim.cosine(0.1, 10),
    }
    for text, make in others.items():
        for name in [*public(type(make())), "__call__", "__init__", "__getitem__", "__len__"]:
            if callable(getattr(type(make()), name, None)) and name != "__class__":
                result.append((f"{text}.{name}", getattr(type(make()), name), (make,)))
    return result


def parameter_names(function):
    try:
        return [p.name for p in inspect.signature(function).parameters.values()][:8]
    except (TypeError, ValueError):
        return ["dim", "dtype", "x", "shape", "keepdim"]


def case(number, known):
    """The text of a call, and a function that makes it."""
    rng = random.Random(number)
    name, function, owners = known[rng.randrange(len(known))]

    groups = rng.choice((GROUPS, NEARLY_RIGHT))

    def value():
        pool = rng.choices([pool for pool, _ in groups], [weight for _, weight in groups])[0]
        key = rng.choice(list(pool))
        return key, pool[key]

    positional = [("self", rng.choice(owners))] if owners else []
    positional += [value() for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 4, 6]))]
    named = {}
    if rng.random() < 0.4:
        names = parameter_names(function)
        for key in rng.sample(names, min(len(names), rng.choice([1, 1, 2, 3]))):
            named[key] = value()
    shown = [text for text, _ in positional] + [f"{key}={text}" for key, (text, _) in named.items()]

    def call():
        args = [make() for _, make in positional]
        return function(*args, **{key: make() for key, (_, make) in named.items()})

    return f"{name}({', '.join(shown)})", call


def look_at(result, depth=0):
    """Results are lazy: what is wrong may come later."""
    if isinstance(result, hd.Tensor):
        if result.numel() <= 10000:
            result.realize()
        return str(result.shape), str(result.dtype)
    if isinstance(result, (tuple, list)) and depth < 3:
        for each in result[:20]:
            look_at(each, depth + 1)
    if isinstance(result, nn.Module):
        repr(result)


def attempt(number, known):
    """What is wrong with a case: None, or a text."""
    _, call = case(number, known)
    try:
        look_at(call())
    except hd.InternalError as error:
        return f"InternalError: {error}"
    except (Planned, MemoryError, *EXPECTED):
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return None


def child(begin, seconds, note):
    """Cases from a number on. Notes the number before each; prints those with another exception than expected."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    printed, sys.stdout = sys.stdout, io.StringIO()
    known, end, number = subjects(), time.monotonic() + seconds, begin
    with open(note, "r+b", buffering=0) as file:
        while time.monotonic() < end:
            os.pwrite(file.fileno(), b"%-20d" % number, 0)
            faulthandler.dump_traceback_later(LONGEST_CALL, exit=True)
            problem = attempt(number, known)
            if problem:
                print(f"case {number}: {case(number, known)[0]}: {problem}", file=printed, flush=True)
            number += 1
        os.pwrite(file.fileno(), b"%-20d" % number, 0)
    faulthandler.cancel_dump_traceback_later()


def fuzz(begin, seconds):
    """Texts about all problems, and the number of cases."""
    known, problems, first, end = None, [], begin, time.monotonic() + seconds
    with tempfile.NamedTemporaryFile() as note:
        while (left := end - time.monotonic()) > 0:
            os.pwrite(note.file.fileno(), b"%-20d" % begin, 0)
            command = [sys.executable, __file__, "--child", str(left), note.name, "--begin", str(begin)]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace")
            problems += done.stdout.splitlines()
            begin = int(os.pread(note.file.fileno(), 20, 0))
            if done.returncode:
                known = known or subjects()
                where = done.stderr.strip()[-1500:]
                problems.append(f"case {begin}: {case(begin, known)[0]}: ended with {done.returncode}\n{where}")
                begin += 1
    return problems, begin - first


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--begin", type=int, default=0)
    arguments.add_argument("--case", type=int)
    arguments.add_argument("--child", nargs=2, metavar=("SECONDS", "NOTE"), help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.child:
        return child(chosen.begin, float(chosen.child[0]), chosen.child[1])
    if chosen.case is not None:
        known = subjects()
        print(case(chosen.case, known)[0], flush=True)
        return look_at(case(chosen.case, known)[1]())
    problems, count = fuzz(chosen.begin, chosen.seconds)
    print("\n".join(problems))
    print(f"{count} cases, {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
