"""heddle.array_api beside the reference implementation of the standard."""

import numpy as np
import pytest

import heddle as hd

strict = pytest.importorskip("array_api_strict")
xp = hd.array_api

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float32", "float64"]


def values(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0 if dtype.startswith("u") else -5, 6, shape).astype(dtype)


def both(f, *arrays):
    """f(namespace, arrays of it), once with each."""
    return f(xp, *(xp.asarray(a) for a in arrays)), f(strict, *(strict.asarray(a) for a in arrays))


def check(f, *arrays):
    ours, theirs = both(f, *arrays)
    ours = ours if isinstance(ours, (tuple, list)) else [ours]
    theirs = theirs if isinstance(theirs, (tuple, list)) else [theirs]
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.dtype.name == np.asarray(b).dtype.name
        assert a.shape == b.shape
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-5, atol=1e-6)


def test_names_of_the_standard_are_there():
    factorisations = {"fft"}
    missing = {n for n in strict.__all__ if not hasattr(xp, n)} - factorisations - {
        "complex64", "complex128", "get_array_api_strict_flags", "set_array_api_strict_flags",
        "reset_array_api_strict_flags", "ArrayAPIStrictFlags", "Device", "__version__",
    }
    assert not missing
    assert hd.ones(2).__array_namespace__() is xp
    assert hd.ones(2).__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError):
        hd.ones(2).__array_namespace__(api_version="1999.1")


REDUCTIONS = ["sum", "prod", "max", "min", "mean", "var", "std", "all", "any", "argmax", "argmin", "count_nonzero"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["bool"] + INTEGERS + FLOATS)
def test_reductions(name, dtype):
    if name in ("mean", "var", "std") and dtype not in FLOATS:
        return
    if name in ("sum", "prod", "max", "min", "argmax", "argmin") and dtype == "bool":
        return
    x = values((3, 4), dtype)
    for axis in (None, 0, -1):
        for keepdims in (False, True):
            check(lambda np_, a: getattr(np_, name)(a, axis=axis, keepdims=keepdims), x)


@pytest.mark.parametrize("name", ["cumulative_sum", "cumulative_prod"])
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_running_totals(name, dtype):
    x = values((3, 4), dtype)
    for initial in (False, True):
        check(lambda np_, a: getattr(np_, name)(a, axis=1, include_initial=initial), x)


BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "equal", "less", "greater_equal", "pow", "floor_divide",
          "remainder"]


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("dtype", INTEGERS + FLOATS)
def test_two_operands(name, dtype):
    a, b = values((3, 4), dtype), values((4,), dtype, 1)
    if name == "pow":
        a, b = np.abs(a), np.abs(b)
    if name in ("floor_divide", "remainder"):
        b = np.where(b == 0, b.dtype.type(1), b)
    check(lambda np_, p, q: getattr(np_, name)(p, q), a, b)


CASES = {
    "concat": lambda np_, a: np_.concat([a, a], axis=None),
    "expand_dims": lambda np_, a: np_.expand_dims(a, axis=-2),
    "flip": lambda np_, a: np_.flip(a),
    "moveaxis": lambda np_, a: np_.moveaxis(a, 0, -1),
    "permute_dims": lambda np_, a: np_.permute_dims(a, (2, 0, 1)),
    "repeat": lambda np_, a: np_.repeat(a, 2, axis=1),
    "reshape": lambda np_, a: np_.reshape(a, (4, 6)),
    "roll": lambda np_, a: np_.roll(a, 2),
    "squeeze": lambda np_, a: np_.squeeze(np_.expand_dims(a, axis=0), 0),
    "stack": lambda np_, a: np_.stack([a, a], axis=-1),
    "tile": lambda np_, a: np_.tile(a, (2, 1)),
    "unstack": lambda np_, a: np_.unstack(a, axis=1),
    "broadcast_arrays": lambda np_, a: np_.broadcast_arrays(a, a[0, 0, :]),
    "matrix_transpose": lambda np_, a: np_.matrix_transpose(a),
    "tril": lambda np_, a: np_.tril(a, k=1),
    "clip": lambda np_, a: np_.clip(a, 1, 3),
    "take": lambda np_, a: np_.take(a, np_.asarray([1, 0]), axis=1),
    "sort": lambda np_, a: np_.sort(a, axis=0, descending=True),
    "argsort": lambda np_, a: np_.argsort(a, axis=1),
    "unique_values": lambda np_, a: np_.unique_values(a),
    "unique_counts": lambda np_, a: tuple(np_.unique_counts(a)),
    "unique_inverse": lambda np_, a: tuple(np_.unique_inverse(a)),
    "unique_all": lambda np_, a: tuple(np_.unique_all(a)),
    "nonzero": lambda np_, a: np_.nonzero(a),
    "diff": lambda np_, a: np_.diff(a, axis=1, prepend=a[:, :1, :]),
    "vecdot": lambda np_, a: np_.vecdot(a, a),
    "tensordot": lambda np_, a: np_.tensordot(a, a, axes=((1,), (1,))),
    "trace": lambda np_, a: np_.linalg.trace(a, offset=1),
    "diagonal": lambda np_, a: np_.linalg.diagonal(a),
    "searchsorted": lambda np_, a: np_.searchsorted(np_.asarray([-2, 0, 3]), np_.astype(a, np_.int64), side="right"),
    "where": lambda np_, a: np_.where(a > 0, a, np_.zeros_like(a)),
    "astype": lambda np_, a: np_.astype(a, np_.float64),
}


@pytest.mark.parametrize("name", CASES)
def test_shapes_sets_and_searches(name):
    for dtype in ("int32", "float32"):
        check(CASES[name], np.round(values((2, 3, 4), dtype) * 2))


def test_norms():
    x = values((3, 4), "float64")
    for ord in (1, 2, 3, float("inf")):
        check(lambda np_, a: np_.linalg.vector_norm(a, axis=1, ord=ord), x)
    for ord in ("fro", 1, -1, float("inf")):
        check(lambda np_, a: np_.linalg.matrix_norm(a, ord=ord), x)
    check(lambda np_, a: np_.linalg.matrix_power(np_.matmul(a, a.mT), 5), x)
    check(lambda np_, a: np_.linalg.outer(a[:, 0], a[0, :]), x)
    check(lambda np_, a: np_.linalg.cross(a[:, :3], a[:, 1:]), x)
    check(lambda np_, a: np_.std(a, correction=0.5), x)


def test_creation():
    cases = [
        lambda np_: np_.arange(7),
        lambda np_: np_.arange(5, -3, -2),
        lambda np_: np_.arange(0, 2, 0.25),
        lambda np_: np_.linspace(0, 1, 5),
        lambda np_: np_.full((2, 3), 7),
        lambda np_: np_.full((2,), True),
        lambda np_: np_.eye(3, 4, k=1),
        lambda np_: np_.zeros(3, dtype=np_.uint8),
        lambda np_: np_.ones((2, 2)),
        lambda np_: np_.meshgrid(np_.arange(2), np_.arange(3)),
        lambda np_: np_.asarray([[1, 2], [3, 4]], dtype=np_.int16),
    ]
    for case in cases:
        ours, theirs = case(xp), case(strict)
        for a, b in zip(ours if isinstance(ours, list) else [ours], theirs if isinstance(ours, list) else [theirs]):
            assert a.shape == b.shape
            np.testing.assert_allclose(np.asarray(a), np.asarray(b))


def test_dtypes():
    names = ["bool"] + INTEGERS + FLOATS
    for a in names:
        for b in names:
            try:
                wanted = strict.result_type(getattr(strict, a), getattr(strict, b))
            except TypeError:
                with pytest.raises(TypeError):
                    xp.result_type(getattr(xp, a), getattr(xp, b))
                continue
            assert xp.result_type(getattr(xp, a), getattr(xp, b)).name == str(wanted).split(".")[-1]
        for kind in ("bool", "integral", "signed integer", "unsigned integer", "real floating", "numeric"):
            assert xp.isdtype(getattr(xp, a), kind) == strict.isdtype(getattr(strict, a), kind)
    for name in INTEGERS:
        ours, theirs = xp.iinfo(getattr(xp, name)), strict.iinfo(getattr(strict, name))
        assert (ours.bits, ours.max, ours.min) == (theirs.bits, theirs.max, theirs.min)
    for name in FLOATS:
        ours, theirs = xp.finfo(getattr(xp, name)), strict.finfo(getattr(strict, name))
        assert (ours.bits, ours.eps, ours.max, ours.smallest_normal) == (
            theirs.bits, theirs.eps, theirs.max, theirs.smallest_normal)


def test_isin():
    x, y = values((3, 4), "float32"), values((2, 3), "float32", 1)
    y[0, :2] = x[1, :2]
    for invert in (False, True):
        np.testing.assert_array_equal(xp.isin(xp.asarray(x), xp.asarray(y), invert=invert), np.isin(x, y, invert=invert))
    assert not xp.any(xp.isin(xp.asarray([1, 2]), xp.asarray([], dtype=xp.int64)))
    assert xp.isin(3, xp.asarray([1, 3]))


def test_shapes_that_broadcast():
    assert xp.broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    assert xp.broadcast_shapes((0, 1), (1, 5)) == (0, 5)
    assert xp.broadcast_shapes() == ()
    with pytest.raises(ValueError):
        xp.broadcast_shapes((2,), (3,))


def test_what_is_wrong_is_said():
    with pytest.raises(hd.ValueError, match="there is none"):
        xp.zeros(2, device="there is none")
    with pytest.raises(ValueError):
        xp.squeeze(xp.ones((2, 3)), 0)
    with pytest.raises(ValueError):
        xp.cumulative_sum(xp.ones((2, 3)))
    with pytest.raises(TypeError):
        xp.finfo(xp.int8)
    with pytest.raises(ValueError):
        xp.nonzero(xp.asarray(1))
