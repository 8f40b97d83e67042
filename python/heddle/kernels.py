"""Kernels of one's own: functions that say, on tiles, what one block of a grid computes."""

import functools
import struct
import sys

from . import _core
from ._core import Tensor

_MOST_VARIANTS = 256  # of constants, for one function


def _plain(value):
    """Scalars of NumPy as the numbers of Python that they are."""
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return value.item()
    return tuple(map(_plain, value)) if type(value) is tuple else value


def _key(value):
    """What tells constants apart: 2, 2.0 and True are equal, -0.0 and 0.0 too, and a NaN equals nothing."""
    if isinstance(value, tuple):
        return type(value), tuple(map(_key, value))
    if isinstance(value, frozenset):
        return type(value), frozenset(map(_key, value))
    if isinstance(value, float):
        return type(value), struct.pack("d", value)
    if isinstance(value, complex):
        return type(value), struct.pack("dd", value.real, value.imag)
    return type(value), value


def kernel(f=None, *, threads=0):
    """A function of tensors that runs as one kernel, written in the language of tiles.

    The function gets the kernel that is being written, then what it is called with: for each tensor or array something
    with a shape and a dtype to load from, everything else (sizes of blocks, flags) as it is. It is called once for each
    combination of shapes, dtypes and constants, and compiled for the device of its arguments. What it declares with
    k.output() is what a call gives: one tensor, or a tuple. `threads`: of a block on a GPU.

    >>> @hd.kernel
    ... def softmax(k, x):
    ...     y = k.output(x.shape, x.dtype)
    ...     row, j = k.block(x.shape[0]), k.range(x.shape[1])
    ...     t = x[row, j]
    ...     e = k.exp(t - k.max(t, j))
    ...     y[row, j] = e / k.sum(e, j)
    >>> x = hd.randn(4, 10)
    >>> hd.allclose(softmax(x), hd.softmax(x, -1), atol=1e-6)
    True

    It has no gradient of its own: see custom_vjp. The documentation has a page about the language (docs/kernels.md).
    """
    if f is None:
        return functools.partial(kernel, threads=threads)
    variants = {}

    def write(names, places, constants):
        def run(k):
            given, tensors = iter(constants), iter(range(len(places)))
            values = [k._input(next(tensors)) if i in places else next(given) for i in range(len(names))]
            positional = [value for name, value in zip(names, values) if name is None]
            named = {name: value for name, value in zip(names, values) if name is not None}
            if f(k, *positional, **named) is not None:
                raise TypeError(f"kernel {f.__name__} returns something; its results are what it declares with k.output()")

        return _core._Kernel(f.__name__, run, threads)

    @functools.wraps(f)
    def run(*args, **kwargs):
        names = (None,) * len(args) + tuple(kwargs)
        tensors, places, constants = [], [], []
        for i, value in enumerate(map(_plain, (*args, *kwargs.values()))):
            if isinstance(value, Tensor) or hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
                places.append(i)
                tensors.append(value)
            else:
                constants.append(value)
        key = (names, tuple(places), _key(tuple(constants)))
        try:
            made = variants.get(key)
        except TypeError:
            bad = next(value for value in constants if getattr(value, "__hash__", None) is None or isinstance(value, tuple))
            raise TypeError(
                f"kernel {f.__name__}: {type(bad).__name__} {bad!r} cannot be hashed; arguments are tensors, arrays, or constants"
            ) from None
        if made is None:
            if len(variants) >= _MOST_VARIANTS:
                variants.clear()
            made = variants[key] = write(names, frozenset(places), tuple(constants))
        results = made(tensors)
        return results[0] if len(results) == 1 else results

    return run
