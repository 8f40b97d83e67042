"""The Python array API standard, version 2024.12, on Heddle's tensors.

    xp = heddle.array_api          # or x.__array_namespace__()
    xp.std(xp.asarray([1.0, 2.0]), correction=1.0)

Functions have the names, arguments and defaults of the standard; where those of `heddle` itself follow PyTorch instead
(`std`, `sort`, `nonzero`, `unique`, ...) they differ. There are no complex numbers, and `linalg` has no factorisations.
"""

import builtins as _py
import math as _math
from collections import namedtuple as _namedtuple

from .. import _core
from ..devices import elsewhere
from .._core import (  # noqa: F401
    Tensor,
    bool,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .._core import (  # noqa: F401  the same in both
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    copysign,
    cos,
    cosh,
    divide,
    exp,
    expm1,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    pow,
    reciprocal,
    remainder,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    where,
)
from ._dtypes import (  # noqa: F401
    _INTEGERS,
    _SIGNED,
    _UNSIGNED,
    __array_namespace_info__,
    can_cast,
    finfo,
    iinfo,
    isdtype,
    result_type,
)

__array_api_version__ = "2024.12"
e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi


def _on(x, device):
    return x if device is None else _core._to_device(x, device)


def astype(x, dtype, /, *, copy=True, device=None):
    x = _on(x, device)
    if not copy and x.dtype == dtype:
        return x
    return _core.cast(x, dtype) if x.dtype != dtype else _core.clone(x)


# Creation


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    if isinstance(obj, Tensor):
        if device is not None and obj.device != device and copy is False:
            raise _core.ValueError("asarray: another device needs a copy")
        obj = _on(obj, device)
        if dtype is not None and dtype != obj.dtype:
            if copy is False:
                raise _core.ValueError("asarray: another dtype needs a copy")
            return _core.cast(obj, dtype)
        return _core.clone(obj) if copy else obj
    if copy is False:
        if dtype is None and hasattr(obj, "__dlpack__"):
            return _on(_core.from_dlpack(obj), device)
        raise _core.ValueError("asarray: this cannot be had without a copy")
    return _core.tensor(obj, dtype=dtype, device=device)


def from_dlpack(x, /, *, device=None, copy=None):
    made = _on(_core.from_dlpack(x), device)
    return _core.clone(made).realize() if copy else made


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = int64 if _py.all(isinstance(n, int) for n in (start, stop, step)) else float32
    return _core.arange(start, stop, step, dtype=dtype, device=device)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    return _core.linspace(start, stop, num, endpoint=endpoint, dtype=dtype or float32, device=device)


def empty(shape, *, dtype=None, device=None):
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    return zeros_like(x, dtype=dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    return full(shape, 0, dtype=dtype or float32, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    return full_like(x, 0, dtype=dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    return full(shape, 1, dtype=dtype or float32, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    return full_like(x, 1, dtype=dtype, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    if dtype is None:
        dtype = bool if isinstance(fill_value, _py.bool) else int64 if isinstance(fill_value, int) else float32
    shape = (shape,) if isinstance(shape, int) else _py.tuple(shape)
    return _core.full(shape, fill_value, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or elsewhere(x))


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    return _core.eye(n_rows, n_cols, k=k, dtype=dtype or float32, device=device)


def meshgrid(*arrays, indexing="xy"):
    return list(_core.meshgrid(*arrays, indexing=indexing)) if arrays else []


def tril(x, /, *, k=0):
    return _core.tril(x, k)


def triu(x, /, *, k=0):
    return _core.triu(x, k)


# Elements


def equal(x1, x2, /):
    return _core.eq(x1, x2)


def positive(x, /):
    return x


def conj(x, /):
    return x


def real(x, /):
    return x


def imag(x, /):
    return zeros_like(x)


def _whole(function):
    def rounded(x, /):
        return x if x.dtype in _INTEGERS else function(x)

    rounded.__name__ = rounded.__qualname__ = function.__name__
    return rounded


ceil, floor, round, trunc = (_whole(f) for f in (_core.ceil, _core.floor, _core.round, _core.trunc))


def clip(x, /, min=None, max=None):
    result = x
    if min is not None:
        result = _core.maximum(result, _like(x, min))
    if max is not None:
        result = _core.minimum(result, _like(x, max))
    return result if result is not x else _core.clone(x)


def _like(x, bound):
    """A bound of clip in the dtype of x: the result has that one."""
    return _core.cast(bound, x.dtype) if isinstance(bound, Tensor) and bound.dtype != x.dtype else bound


# Shapes


def broadcast_arrays(*arrays):
    return list(_core.broadcast_tensors(*arrays))


def broadcast_shapes(*shapes):
    rank = _py.max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for at, size in enumerate(shape, rank - len(shape)):
            if size != 1 and result[at] not in (1, size):
                raise _core.ShapeError(f"broadcast_shapes: {shapes} do not broadcast: {result[at]} against {size}")
            result[at] = size if size != 1 else result[at]
    return _py.tuple(result)


def broadcast_to(x, /, shape):
    return _core.broadcast_to(x, _py.tuple(shape))


def concat(arrays, /, *, axis=0):
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [_core.reshape(x, (-1,)) for x in arrays], 0
    return _core.cat(arrays, axis)


def expand_dims(x, /, axis=0):
    if isinstance(axis, int):
        return _core.unsqueeze(x, axis)
    rank = x.ndim + len(axis)
    for at in axis:
        if not -rank <= at < rank:
            raise _core.IndexError(f"expand_dims: axis {at} of {rank} axes")
    for at in sorted(at % rank for at in axis):
        x = _core.unsqueeze(x, at)
    return x


def flip(x, /, *, axis=None):
    return _core.flip(x, _py.tuple(_py.range(x.ndim)) if axis is None else axis)


def matrix_transpose(x, /):
    return _core.swapaxes(x, -2, -1)


def moveaxis(x, source, destination, /):
    return _core.moveaxis(x, source, destination)


def permute_dims(x, /, axes):
    return _core.permute(x, _py.tuple(axes))


def repeat(x, repeats, /, *, axis=None):
    if axis is None:
        x, axis = _core.reshape(x, (-1,)), 0
    return _core.repeat_interleave(x, repeats, axis)


def reshape(x, /, shape, *, copy=None):
    return _core.reshape(x, _py.tuple(shape))


def roll(x, /, shift, *, axis=None):
    if axis is not None and isinstance(shift, int) and not isinstance(axis, int):
        shift = (shift,) * len(axis)
    return _core.roll(x, shift, axis)


def squeeze(x, /, axis):
    axes = (axis,) if isinstance(axis, int) else _py.tuple(axis)
    for at in axes:
        if not -x.ndim <= at < x.ndim or x.shape[at] != 1:
            raise _core.ValueError(f"squeeze: axis {at} of shape {x.shape} is not of size 1")
    return _core.squeeze(x, axes)


def stack(arrays, /, *, axis=0):
    return _core.stack(list(arrays), axis)


def tile(x, repetitions, /):
    return _core.tile(x, _py.tuple(repetitions))


def unstack(x, /, *, axis=0):
    return _py.tuple(_core.unbind(x, axis))


# Indexing and searching


def take(x, indices, /, *, axis=None):
    return _core.take(x, indices, 0 if axis is None else axis)


def take_along_axis(x, indices, /, *, axis=-1):
    return _core.take_along_axis(x, indices, axis)


def argmax(x, /, *, axis=None, keepdims=False):
    return _core.argmax(x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    return _core.argmin(x, axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    return _core.count_nonzero(x, axis, keepdims)


def nonzero(x, /):
    if x.ndim == 0:
        raise _core.ValueError("nonzero: of an array without axes")
    return _py.tuple(_core.nonzero(x, as_tuple=True))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    if side not in ("left", "right"):
        raise _core.ValueError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    return _core.searchsorted(x1 if sorter is None else _core.take(x1, sorter, 0), x2, side == "right")


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    return _core.argsort(x, axis, descending)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    return _core.sort(x, axis, descending)[0]


# Sets

unique_all_result = _namedtuple("unique_all_result", "values indices inverse_indices counts")
unique_counts_result = _namedtuple("unique_counts_result", "values counts")
unique_inverse_result = _namedtuple("unique_inverse_result", "values inverse_indices")


def unique_all(x, /):
    """Every NaN is different from every other."""
    flat = _core.reshape(x, (-1,))
    n = flat.shape[0]
    if n == 0:
        none = _core.zeros(0, dtype=int64)
        return unique_all_result(flat, none, zeros_like(x, dtype=int64), none)
    order = _core.argsort(flat, 0)
    ordered = _core.take(flat, order, 0)
    fresh = _core.cat([_core.ones(1, dtype=bool), _core.ne(ordered[1:], ordered[:-1])], 0)
    first = _core.reshape(_core.nonzero(fresh), (-1,))
    which = _core.cumsum(_core.cast(fresh, int64), 0) - 1
    inverse = _core.index_copy(_core.zeros(n, dtype=int64), 0, order, which)
    ends = _core.cat([first[1:], _core.tensor([n], dtype=int64)], 0)
    return unique_all_result(
        _core.take(ordered, first, 0), _core.take(order, first, 0), _core.reshape(inverse, x.shape), ends - first
    )


def unique_counts(x, /):
    found = unique_all(x)
    return unique_counts_result(found.values, found.counts)


def unique_inverse(x, /):
    found = unique_all(x)
    return unique_inverse_result(found.values, found.inverse_indices)


def unique_values(x, /):
    return unique_all(x).values


def isin(x1, x2, /, *, invert=False):
    x1, x2 = (x if isinstance(x, Tensor) else asarray(x) for x in (x1, x2))
    dtype = result_type(x1, x2)
    found = zeros_like(x1, dtype=bool)
    if x1.size and x2.size:
        known = _core.sort(_core.reshape(_as(x2, dtype), (-1,)), 0)[0]
        flat = _core.reshape(_as(x1, dtype), (-1,))
        at = _core.minimum(_core.searchsorted(known, flat), known.shape[0] - 1)
        found = _core.reshape(_core.eq(_core.take(known, at, 0), flat), x1.shape)
    return _core.logical_not(found) if invert else found


# Statistics


def _as(x, dtype):
    return x if dtype is None or x.dtype == dtype else _core.cast(x, dtype)


def _wide(dtype):
    """What sums of a dtype are of."""
    if dtype in _SIGNED or dtype == bool:
        return int64
    return uint64 if dtype in _UNSIGNED else dtype


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    wide = dtype or _wide(x.dtype)
    return _as(_core.sum(_as(x, wide), axis, keepdims), wide)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    wide = dtype or _wide(x.dtype)
    return _as(_core.prod(_as(x, wide), axis, keepdims), wide)


def max(x, /, *, axis=None, keepdims=False):
    return _core.amax(x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    return _core.amin(x, axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    return _core.mean(x, axis, keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    if int(correction) == correction:
        return _core.var(x, axis, keepdims, int(correction))
    count = _size(x, axis)
    return _core.var(x, axis, keepdims, 0) * (count / (count - correction))


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _core.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _size(x, axis):
    axes = _py.range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    return _math.prod(x.shape[at] for at in axes)


def _accumulated(function, start):
    def accumulate(x, /, *, axis=None, dtype=None, include_initial=False):
        if axis is None:
            if x.ndim > 1:
                raise _core.ValueError(f"{accumulate.__name__}: of {x.ndim} axes one must be named")
            axis = 0
        wide = dtype or _wide(x.dtype)
        result = _as(function(_as(x, wide), axis), wide)
        if include_initial:
            shape = list(x.shape)
            shape[axis] = 1
            result = _core.cat([_core.full(_py.tuple(shape), start, dtype=wide), result], axis)
        return result

    return accumulate


cumulative_sum, cumulative_prod = _accumulated(_core.cumsum, 0), _accumulated(_core.cumprod, 1)
cumulative_sum.__name__, cumulative_prod.__name__ = "cumulative_sum", "cumulative_prod"


# Utilities


def all(x, /, *, axis=None, keepdims=False):
    return _core.all(x, axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    return _core.any(x, axis, keepdims)


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    parts = [part for part in (prepend, x, append) if part is not None]
    return _core.diff(_core.cat(parts, axis) if len(parts) > 1 else x, n, axis)


# Linear algebra


def matmul(x1, x2, /):
    return _core.matmul(x1, x2)


def tensordot(x1, x2, /, *, axes=2):
    return _core.tensordot(x1, x2, axes)


def vecdot(x1, x2, /, *, axis=-1):
    if not -_py.min(x1.ndim, x2.ndim) <= axis < 0:
        raise _core.ValueError(f"vecdot: axis {axis} of {x1.ndim} and {x2.ndim} axes")
    if x1.shape[axis] != x2.shape[axis]:
        raise _core.ShapeError(f"vecdot: axes of sizes {x1.shape[axis]} and {x2.shape[axis]}")
    dtype = result_type(x1, x2)
    return _as(_core.sum(_core.mul(x1, x2), axis), dtype)


from . import linalg  # noqa: E402,F401

__all__ = [name for name in dir() if not name.startswith("_") and name != "Tensor"]
__all__ += ["__array_api_version__", "__array_namespace_info__"]
