"""`linalg` of the array API, but for factorisations and what needs them."""

import math as _math

from .. import _core
from . import matmul, matrix_transpose, sum as _sum, tensordot, vecdot  # noqa: F401


def cross(x1, x2, /, *, axis=-1):
    if not -min(x1.ndim, x2.ndim) <= axis < 0:
        raise _core.ValueError(f"cross: axis {axis} of {x1.ndim} and {x2.ndim} axes")
    x1, x2 = _core.broadcast_tensors(x1, x2)
    return _core.cross(x1, x2, axis)


def diagonal(x, /, *, offset=0):
    return _core.diagonal(x, offset, -2, -1)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    if ord == "fro":
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    if ord in (1, -1, _math.inf, -_math.inf):
        rows = abs(ord) == _math.inf
        sums = _core.sum(_core.abs(x), -1 if rows else -2, True)
        return (_core.amax if ord > 0 else _core.amin)(sums, (-2, -1), keepdims)
    raise _core.ValueError(f"matrix_norm: there are no norms of singular values ({ord!r})")


def matrix_power(x, n, /):
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise _core.ShapeError(f"matrix_power: of square matrices, not of shape {x.shape}")
    if n < 0:
        raise _core.ValueError("matrix_power: a negative power needs the inverse")
    result, square = None, x
    while n:
        if n & 1:
            result = square if result is None else _core.matmul(result, square)
        n >>= 1
        if n:
            square = _core.matmul(square, square)
    if result is None:
        result = _core.broadcast_to(_core.eye(x.shape[-1], dtype=x.dtype), x.shape)
    return result


def outer(x1, x2, /):
    if x1.ndim != 1 or x2.ndim != 1:
        raise _core.ShapeError(f"outer: of vectors, not of shapes {x1.shape} and {x2.shape}")
    return _core.unsqueeze(x1, 1) * _core.unsqueeze(x2, 0)


def trace(x, /, *, offset=0, dtype=None):
    return _sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    return _core.norm(x, ord, axis, keepdims)
