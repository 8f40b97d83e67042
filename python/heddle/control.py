"""Control flow inside of a program: conditions and loops whose rounds are compiled once. Values may be nested."""

from operator import index
from typing import SupportsIndex

from . import _core
from ._core import Tensor, tree_flatten, tree_unflatten
from .transforms import _tensors


def _flat(op, tree, expected, what):
    """The leaves of what a function gives, which has the structure that is expected."""
    leaves, structure = _tensors(op, tree)
    if structure != expected:
        raise ValueError(f"{op}: {what} has the structure {structure}, not {expected}")
    return leaves


def _values(op, tree):
    """The leaves as tensors. Numbers are constants, which go to any device."""
    leaves, structure = tree_flatten(tree)
    return _tensors(op, [_core.full((), x) if isinstance(x, (bool, int, float)) else x for x in leaves])[0], structure


def cond(pred, true_fn, false_fn, *operands):
    """true_fn(*operands) if pred, a bool without axes, is true, else false_fn(*operands). Only that one runs.

    >>> hd.cond(hd.tensor(6) < 10, lambda x: x / 2, lambda x: 3 * x + 1, hd.tensor([6.0, 8.0])).tolist()
    [3.0, 4.0]
    """
    leaves, structure = _values("cond", operands)
    shapes = []

    def branch(f):
        def flat(x):
            results, shape = _tensors("cond", f(*tree_unflatten(structure, x)))
            if shapes and shapes[0] != shape:
                raise ValueError(f"cond: one function gives {shapes[0]}, the other one {shape}")
            shapes[:] = [shape]
            return results

        return flat

    results = _core._conditional(_core.as_tensor(pred), branch(true_fn), branch(false_fn), leaves)
    return tree_unflatten(shapes[0], results)


def while_loop(cond_fun, body_fun, init_val):
    """value = body_fun(value), from init_val on, for as long as cond_fun(value), a bool without axes, holds.

    >>> hd.while_loop(lambda x: x < 100, lambda x: x * 2, 3.0).item()
    192.0
    """
    leaves, structure = _values("while_loop", init_val)

    def body(x):
        return _flat("while_loop", body_fun(tree_unflatten(structure, x)), structure, "what the body gives")

    def holds(x):
        return _core.as_tensor(cond_fun(tree_unflatten(structure, x)))

    return tree_unflatten(structure, _core._while(holds, body, leaves))


def _kind(value):
    return f"{len(value)} values" if isinstance(value, (tuple, list)) else type(value).__name__


def _scanned(op, f, init, xs, length, reverse, recompute_every):
    carry, carry_shape = _values(op, init)
    inputs, inputs_shape = _tensors(op, xs)
    seen = []

    def body(now, slices):
        results = f(tree_unflatten(carry_shape, now), tree_unflatten(inputs_shape, slices))
        if not isinstance(results, (tuple, list)) or len(results) != 2:
            raise TypeError(f"{op}: the body gives {_kind(results)}, not a pair: what is carried on, and an output")
        next_value, y = results
        outputs, shape = _tensors(op, y)
        seen[:] = [shape]
        return _flat(op, next_value, carry_shape, "what is carried on"), outputs

    last, all_outputs = _core._scanned(op, body, carry, inputs, reverse, length, recompute_every)
    return tree_unflatten(carry_shape, last), tree_unflatten(seen[0], all_outputs)


def scan(f, init, xs=(), length=None, reverse=False, recompute_every=0):
    """For each slice x of xs along axis 0: carry, y = f(carry, x). Gives the last carry, and all y stacked.

    length: how many rounds; needed where xs is empty. reverse: from the last slice to the first. recompute_every: for
    gradients keep the carried values of every so manieth round alone, and compute what lies between again.

    >>> total, sums = hd.scan(lambda s, x: (s + x, s + x), 0.0, hd.tensor([1.0, 2.0, 3.0]))
    >>> total.item(), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    return _scanned("scan", f, init, xs, length, reverse, recompute_every)


def fori_loop(lower, upper, body_fun, init_val):
    """value = body_fun(i, value), from init_val on, for i from lower to upper, which is not included.

    Bounds that are tensors make it a while_loop.

    >>> hd.fori_loop(0, 4, lambda i, x: x * 2 + i, 1.0).item()
    27.0
    """
    if isinstance(lower, Tensor) or isinstance(upper, Tensor):
        first = (lower if isinstance(lower, Tensor) else _core.full((), lower, dtype=_core.int64)).to(_core.int64)
        return while_loop(lambda s: s[0] < upper, lambda s: (s[0] + 1, body_fun(*s)), (first, init_val))[1]
    for name, bound in (("lower", lower), ("upper", upper)):
        if not isinstance(bound, SupportsIndex):
            raise TypeError(f"fori_loop: {name} is {bound!r}, not a whole number")
    rounds = max(0, index(upper) - index(lower))
    leaves, structure = _values("fori_loop", init_val)

    def body(now, _):
        results = body_fun(now[0], tree_unflatten(structure, now[1:]))
        return [now[0] + 1, *_flat("fori_loop", results, structure, "what the body gives")], []

    counter = _core.full((), index(lower), dtype=_core.int64)
    return tree_unflatten(structure, _core._scanned("fori_loop", body, [counter, *leaves], [], False, rounds, 0)[0][1:])


def map(f, xs):
    """f of each slice of xs along axis 0, stacked: one after the other, where vmap computes all at once.

    >>> hd.map(lambda x: (x * x).sum(), hd.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [5.0, 25.0]
    """
    return _scanned("map", lambda _, x: ((), f(x)), (), xs, None, False, 0)[1]
