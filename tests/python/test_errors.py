import itertools

import numpy as np
import pytest

import heddle as hd


def test_classes():
    pairs = {
        "ShapeError": ValueError, "DTypeError": TypeError, "IndexError": IndexError, "ValueError": ValueError,
        "CaptureError": RuntimeError, "ParseError": ValueError, "OutOfMemory": MemoryError, "DeviceError": RuntimeError,
        "CompileError": RuntimeError, "InternalError": RuntimeError,
    }  # fmt: skip
    for name, base in pairs.items():
        assert issubclass(getattr(hd, name), base) and issubclass(getattr(hd, name), hd.Error)


def test_messages_name_op_shapes_and_dtypes():
    for use, error, words in [
        (lambda: hd.ones(2) + hd.ones(3), hd.ShapeError, ["add", "[2]", "[3]"]),
        (lambda: hd.ones(2, 3) @ hd.ones(2, 3), hd.ShapeError, ["matmul", "[2, 3]"]),
        (lambda: hd.ones(2) << 1, hd.DTypeError, ["f32"]),
        (lambda: hd.ones(2).sum(3), hd.IndexError, ["sum", "3"]),
        (lambda: hd.ones(2).reshape(3), hd.ShapeError, ["reshape", "[2]", "[3]"]),
        (lambda: hd.zeros(-1), hd.ShapeError, ["zeros", "-1"]),
        (lambda: hd.ones(2).sum(dim="a"), TypeError, ["sum()", "'dim'", "str"]),
        (lambda: hd.ones(2).sum(0, axis=1), TypeError, ["sum()", "twice"]),
        (lambda: hd.ones(2).sum(wrong=1), TypeError, ["sum()", "'wrong'", "keepdim"]),
        (lambda: hd.ones(2).sum(0, False, 3, 4), TypeError, ["sum()", "at most 3", "5"]),
        (lambda: hd.softmax(), TypeError, ["softmax()", "'x'"]),
        (lambda: hd.exp("a"), TypeError, ["exp()", "'x'", "str"]),
        (lambda: hd.cat(3), TypeError, ["cat()", "'tensors'", "sequence"]),
        (lambda: hd.zeros(2, dtype="f31"), TypeError, ["'dtype'", "f31"]),
        (lambda: hd.cast(hd.ones(2), None), TypeError, None),
        (lambda: hd.rand(2, generator=3), TypeError, ["'generator'", "Generator"]),
    ]:
        with pytest.raises(error) as raised:
            use()
        for word in words or []:
            assert word in str(raised.value), (word, str(raised.value))


def test_indices_out_of_range_are_found_when_computing():
    x = hd.arange(5)[hd.tensor([1, 9])]
    with pytest.raises(IndexError, match="9"):
        x.tolist()


def test_a_gradient_that_is_not_there():
    x, y = hd.tensor([1.0], requires_grad=True), hd.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError):
        hd.grad(x.sum(), y)
    assert hd.grad(x.sum(), [y], allow_unused=True)[0].tolist() == [0]


ODD = [
    None, True, 0, -1, 2**40, 2**80, 1.5, float("nan"), float("inf"), 1j, "", "text", b"bytes", (), [], {}, set(), object(), int,
    print, ..., slice(1), [1, "a"], [[1], [1, 2]], (None,), np.zeros(3), np.zeros((0, 2)), np.array("a"), np.float32(1),
    hd.ones(2, 3), hd.tensor(1), hd.tensor([True, False]), hd.zeros(0), hd.float32, hd.Tensor.__new__(hd.Tensor), hd.ones,
    range(3), iter([1]), -(2**63), 2**63 - 1,
]  # fmt: skip


# Functions that change the process.
SKIPPED = {"manual_seed", "set_deterministic", "allow_tf32", "set_relaxed", "forget_recordings", "profile"}
FUNCTIONS = sorted(
    name
    for name in dir(hd._core)
    if callable(getattr(hd._core, name)) and not isinstance(getattr(hd._core, name), type) and name not in SKIPPED
)
# Sizes that the machine may have, but a test should not take, are left out.
SMALL = [odd for odd in ODD if not (isinstance(odd, int) and abs(odd) > 100)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_argument_crashes(name):
    """Whatever is given, there is a result or an exception of Python's."""
    function = getattr(hd._core, name)
    x = hd.ones(2, 3)
    cases = [()] + [(odd,) for odd in SMALL] + [(x, odd) for odd in SMALL] + [(odd, x) for odd in SMALL[::3]]
    cases += [(x, a, b) for a, b in itertools.product(SMALL[::5], SMALL[::4])]
    for case in cases:
        try:
            result = function(*case)
            if isinstance(result, hd.Tensor) and result.size < 10000:
                result.shape, result.dtype
        except Exception:
            pass


def test_large_sizes_are_errors():
    for use in (lambda: hd.zeros(2**62, 4), lambda: hd.ones(3).reshape(2**62, 2**62), lambda: hd.eye(2**40)):
        with pytest.raises(ValueError):
            use()
    with pytest.raises(MemoryError):
        hd.ones(2**45).realize()
    assert hd.arange(2**63 - 1, -(2**63)).shape == (0,)


@pytest.mark.parametrize("name", sorted(name for name in dir(hd.Tensor) if not name.startswith("__")))
def test_no_argument_of_a_method_crashes(name):
    for tensor in (hd.ones(2, 3), hd.zeros(0), hd.tensor(3)):
        for odd in SMALL[::2]:
            try:
                method = getattr(tensor, name)
                if callable(method):
                    method(odd)
            except Exception:
                pass
