"""x[...] and x[...] = value against NumPy."""

import numpy as np
import pytest

import heddle as hd

A = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
CASES = [
    0, -1, (1, 2), (1, 2, 3), (0, -1, -5), np.int64(1), slice(None), slice(1, None), slice(None, None, 2),
    slice(None, None, -1), slice(-2, None), slice(2, 0, -1), slice(10, 20), slice(5, 1), slice(-100, 100, 3), ...,
    None, (None, None), (..., None), (None, ..., None, 1), (slice(None), 1), (..., 1), (1, ...), (1, ..., 2),
    (slice(None), slice(None, None, 2), slice(None, None, -2)), (slice(1, 3), None, 2, slice(3, None)), (), (0, 0, 0, ...),
    [0, 2], [2, 0, 0, -1], [], np.array([1, 0]), np.array([[0, 1], [2, 2]]), np.array([1], np.uint8),
    ([0, 1], [1, 2]), ([0, 1], slice(None), [1, 2]), (slice(None), [0, 1], [1, 2]), ([[0], [1]], [0, 3]),
    (0, [1, 2]), (0, slice(None), [1, 2]), ([1, 2], 0), ([1, 2], slice(None), 0), (slice(None), [1, 2], 0),
    (..., [1, 2]), ([0, 1], ...), (None, [0, 1]), ([0, 1], None, [1, 2]), (slice(1, None), [0, -1], None), ([1, 2], ..., 0),
    A > 20, A[..., 0] > 20, A[0, :, 0] > 7 if False else np.array([True, False, True]), (slice(None), np.array([True, False, True, True])),
    (np.array([True, False, True]), [0, 1]), (np.array([True, False, True]), slice(None), 2), A < 0, (A > 20) & (A < 40),
    (A[:, :, 0] > 20, 1), (..., np.array([True, False, True, False, True])), True, False, (True, 1), (slice(None), None, True),
    [True, False, True], (0, [True, False, True, False]), (np.array(1), 2), np.array(True), range(2),
]  # fmt: skip


def as_tensors(key):
    if isinstance(key, tuple):
        return tuple(as_tensors(each) for each in key)
    return hd.tensor(key) if isinstance(key, np.ndarray) else key


def for_numpy(key):
    return list(key) if isinstance(key, range) else key


@pytest.mark.parametrize("number", range(len(CASES)))
def test_reading(number):
    key = CASES[number]
    want, x = A[for_numpy(key)], hd.tensor(A)
    for mine in (key, as_tensors(key)):
        got = x[mine]
        assert got.shape == want.shape, (key, got.shape, want.shape)
        assert (got.numpy() == want).all()


@pytest.mark.parametrize("number", range(len(CASES)))
def test_writing(number):
    key = CASES[number]
    a, x = A.copy(), hd.tensor(A)
    a[for_numpy(key)] = -1
    x[key] = -1
    assert (x.numpy() == a).all()
    part = a[for_numpy(key)]
    value = np.arange(part.size, dtype=np.float32).reshape(part.shape) + 100
    a[for_numpy(key)] = value
    x[as_tensors(key)] = hd.tensor(value)
    assert (x.numpy() == a).all()


def random_key(rng, shape, arrays):
    key, axis, first = [], 0, None
    while axis < len(shape):
        n, kind = shape[axis], rng.integers(0, 8)
        if kind == 0:
            key.append(int(rng.integers(-n, n)))
        elif kind in (1, 2, 3):
            bounds = [None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3)) for _ in range(2)]
            step = None if rng.random() < 0.4 else int(rng.choice([-3, -2, -1, 1, 2, 3]))
            key.append(slice(*bounds, step))
        elif kind == 4:
            key.append(None)
            continue
        elif kind == 5 and arrays:
            key.append(rng.integers(-n, n, 3))
        elif kind == 6 and arrays and first is None:
            first = axis
            mask = np.zeros(n, bool)
            mask[rng.permutation(n)[: min(3, n)]] = True
            key.append(mask if mask.sum() == 3 else rng.integers(-n, n, 3))
        elif kind == 7 and not any(each is Ellipsis for each in key):
            key.append(...)
            axis += int(rng.integers(0, len(shape) - axis + 1))
            continue
        else:
            break
        axis += 1
    return tuple(key)


@pytest.mark.parametrize("seed", range(60))
def test_random_keys(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(3, 6, rng.integers(1, 5)))
    a = rng.integers(0, 1000, shape).astype(np.float32)
    key = random_key(rng, shape, arrays=seed % 2 == 0)
    try:
        want = a[key]
    except IndexError:
        with pytest.raises(IndexError):
            hd.tensor(a)[key]
        return
    got = hd.tensor(a)[as_tensors(key)]
    assert got.shape == want.shape and (got.numpy() == want).all(), key
    x = hd.tensor(a)
    a[key] = 7
    x[key] = 7
    assert (x.numpy() == a).all(), key


def test_compound_assignment_to_a_part():
    a, x = A.copy(), hd.tensor(A)
    a[1, ::2] += 5
    x[1, ::2] += 5
    a[a > 50] *= 2
    x[x > 50] *= 2
    assert (x.numpy() == a).all()


def test_values_broadcast_and_are_converted():
    x = hd.zeros(2, 3, dtype="i32")
    x[:, 1] = [5, 6]
    x[0] = np.array([1.9, 2.9, 3.9])
    x[1, 2] = True
    assert x.tolist() == [[1, 2, 3], [0, 6, 1]]
    with pytest.raises(ValueError):
        x[0] = [1, 2]


def test_mistakes():
    x = hd.tensor(A)
    for key in (3, -4, (0, 4), (0, 0, 0, 0), (..., ...), np.zeros(2, bool), (slice(None), np.zeros(3, bool))):
        with pytest.raises(IndexError):
            x[key]
    for key in (1.5, "a", [1.5], {}, object(), (0, "b")):
        with pytest.raises((TypeError, IndexError)):
            x[key]
    with pytest.raises(ValueError):
        x[::0]
    with pytest.raises(IndexError):
        x[[0, 7]].numpy()
    with pytest.raises(TypeError):
        del x[0]
    with pytest.raises(IndexError):
        x[2**70]
    assert x[: 2**70].shape == x.shape


def test_gradients_flow_through_indices():
    w = hd.tensor(A, requires_grad=True)
    g = hd.grad((w[:, [0, 0, 1], ::2] * 2).sum(), w).numpy()
    want = np.zeros_like(A)
    np.add.at(want, (slice(None), [0, 0, 1], slice(None, None, 2)), 2)
    assert (g == want).all()
