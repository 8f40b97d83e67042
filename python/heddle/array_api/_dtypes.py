"""Dtypes of the array API, and what the namespace says about itself."""

import builtins as _py
from collections import namedtuple as _namedtuple

from .. import _core
from ..devices import default_device, devices
from .._core import Tensor, bool, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

_SIGNED, _UNSIGNED, _REAL = (int8, int16, int32, int64), (uint8, uint16, uint32, uint64), (float32, float64)
_INTEGERS = _SIGNED + _UNSIGNED
_DTYPES = (bool,) + _INTEGERS + _REAL


def _check_device(device):
    if device is not None:
        _core._device_name(device)


class _Info:
    """What this namespace can do, as the standard asks for it."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return default_device()

    def devices(self):
        return devices()

    def default_dtypes(self, *, device=None):
        _check_device(device)
        return {"real floating": float32, "integral": int64, "indexing": int64}

    def dtypes(self, *, device=None, kind=None):
        _check_device(device)
        chosen = _DTYPES if kind is None else [d for d in _DTYPES if isdtype(d, kind)]
        return {d.name: d for d in chosen}


def __array_namespace_info__():
    return _Info()


finfo_object = _namedtuple("finfo_object", "bits eps max min smallest_normal dtype")
iinfo_object = _namedtuple("iinfo_object", "bits max min dtype")
_FINFO = {
    float32: (32, 2.0**-23, (2 - 2.0**-23) * 2.0**127, 2.0**-126),
    float64: (64, 2.0**-52, (2 - 2.0**-52) * 2.0**1023, 2.0**-1022),
}
_KINDS = {
    "bool": (bool,),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _INTEGERS,
    "real floating": _REAL,
    "complex floating": (),
    "numeric": _INTEGERS + _REAL,
}


def _dtype_of(x):
    return x.dtype if isinstance(x, Tensor) else x


def finfo(type, /):
    dtype = _dtype_of(type)
    if dtype not in _FINFO:
        raise TypeError(f"finfo is of floating-point dtypes, not {dtype}")
    bits, eps, largest, smallest = _FINFO[dtype]
    return finfo_object(bits, eps, largest, -largest, smallest, dtype)


def iinfo(type, /):
    dtype = _dtype_of(type)
    if dtype not in _INTEGERS:
        raise TypeError(f"iinfo is of integer dtypes, not {dtype}")
    bits = 8 * dtype.itemsize
    if dtype in _SIGNED:
        return iinfo_object(bits, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), dtype)
    return iinfo_object(bits, 2**bits - 1, 0, dtype)


def isdtype(dtype, kind):
    if isinstance(kind, _py.tuple):
        return _py.any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise _core.ValueError(f"there is no kind of dtypes {kind!r}")
        return dtype in _KINDS[kind]
    return dtype == kind


def _promoted(a, b):
    if a == b:
        return a
    if (a in _REAL) != (b in _REAL) or (a == bool) or (b == bool):
        raise TypeError(f"the standard has no common dtype of {a} and {b}")
    if a in _REAL:
        return float64
    if (a in _SIGNED) == (b in _SIGNED):
        return a if a.itemsize >= b.itemsize else b
    signed, unsigned = (a, b) if a in _SIGNED else (b, a)
    if unsigned == uint64:
        raise TypeError(f"the standard has no common dtype of {a} and {b}")
    wider = {1: int16, 2: int32, 4: int64}[unsigned.itemsize]
    return signed if signed.itemsize >= wider.itemsize else wider


def result_type(*arrays_and_dtypes):
    if not arrays_and_dtypes:
        raise _core.ValueError("result_type: of at least one array or dtype")
    found, numbers = None, []
    for x in arrays_and_dtypes:
        if isinstance(x, (int, float)):
            numbers.append(x)
            continue
        dtype = _dtype_of(x)
        if dtype not in _DTYPES:
            raise TypeError(f"result_type: neither an array nor a dtype of the standard: {x!r}")
        found = dtype if found is None else _promoted(found, dtype)
    if found is None:
        raise _core.ValueError("result_type: at least one array or dtype must be among the numbers")
    for x in numbers:
        fits = (bool,) if isinstance(x, _py.bool) else _INTEGERS + _REAL if isinstance(x, int) else _REAL
        if found not in fits:
            raise TypeError(f"the number {x!r} does not go with {found}")
    return found


def can_cast(from_, to, /):
    dtype = _dtype_of(from_)
    try:
        return _promoted(dtype, to) == to
    except TypeError:
        return False
