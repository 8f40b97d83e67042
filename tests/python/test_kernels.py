"""Kernels that people write, against NumPy; what is wrong with them, in words."""

import threading

import numpy as np
import pytest

import heddle as hd


@hd.kernel
def add(k, x, y, block=64):
    z = k.output(x.shape, x.dtype)
    n = x.shape[0]
    i = k.block(-(-n // block)) * block + k.range(block)
    z[i] = x[i] + y[i]


@hd.kernel
def softmax(k, x):
    y = k.output(x.shape, x.dtype)
    row, j = k.block(x.shape[0]), k.range(x.shape[1])
    t = x[row, j]
    e = k.exp(t - k.max(t, j))
    y[row, j] = e / k.sum(e, j)


@hd.kernel
def matmul(k, a, b, bias, *, rows=8, columns=32, relu=True):
    (m, depth), n = a.shape, b.shape[1]
    c = k.output((m, n), a.dtype)
    i = k.block(-(-m // rows)) * rows + k.range(rows)
    j = k.block(-(-n // columns)) * columns + k.range(columns)
    p = k.range(depth)
    y = k.dot(a[i, p], b[p, j], p) + bias[j]
    c[i, j] = k.maximum(y, 0) if relu else y


@hd.kernel
def attention(k, q, keys, values, *, rows=16, chunk=32, causal=False):
    heads, tokens, width = q.shape
    y = k.output(q.shape, q.dtype)
    head, first = k.block(heads), k.block(-(-tokens // rows)) * rows
    i, j, d = k.range(rows), k.range(chunk), k.range(width)
    query = k.shared((width, rows), q.dtype)
    query[d, i] = q[head, first + i, d] * width**-0.5

    def step(start, top, total, out):
        scores = k.dot(query[d, i], keys[head, start + j, d], d)
        seen = start + j < tokens
        if causal:
            seen = seen & (start + j <= first + i)
        scores = k.where(seen, scores, -hd.inf)
        new = k.maximum(top, k.max(scores, j))
        weights, kept = k.exp(scores - new), k.exp(top - new)
        return new, total * kept + k.sum(weights, j), k.dot(weights, values[head, start + j, d], j, out * kept)

    begin = k.full(i, -hd.inf, hd.float32), k.full(i, 0, hd.float32), k.full((i, d), 0, hd.float32)
    stop = k.minimum(first + rows, tokens) if causal else tokens
    _, total, out = k.loop(0, stop, step, begin, step=chunk)
    y[head, first + i, d] = out / total


def softmax_of(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_examples(rng):
    draw = lambda *shape: rng.standard_normal(shape).astype("f4")
    x, y = draw(1000), draw(1000)
    np.testing.assert_array_equal(add(hd.tensor(x), hd.tensor(y)), x + y)
    np.testing.assert_array_equal(add(x, y, 128), x + y)  # arrays are tensors
    t = draw(5, 77)
    np.testing.assert_allclose(softmax(hd.tensor(t)), softmax_of(t), rtol=1e-5)
    a, b, bias = draw(19, 24), draw(24, 40), draw(40)
    np.testing.assert_allclose(matmul(a, b, bias), np.maximum(a @ b + bias, 0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(matmul(a, b, bias, relu=False), a @ b + bias, rtol=1e-4, atol=1e-5)
    q, keys, values = draw(2, 50, 8), draw(2, 50, 8), draw(2, 50, 8)
    scores = q @ keys.transpose(0, 2, 1) * 8**-0.5
    np.testing.assert_allclose(attention(q, keys, values), softmax_of(scores) @ values, rtol=1e-4, atol=1e-5)
    scores = np.where(np.tril(np.ones((50, 50), bool)), scores, -np.inf)
    np.testing.assert_allclose(attention(q, keys, values, causal=True), softmax_of(scores) @ values, rtol=1e-4, atol=1e-5)


def test_written_once_for_each_shape_and_constant():
    written = []

    @hd.kernel
    def scaled(k, x, factor):
        written.append(factor)
        y = k.output(x.shape, x.dtype)
        i = k.range(x.shape[0])
        y[i] = x[i] * factor

    for _ in range(2):
        assert scaled(hd.tensor([1.0, 2.0]), 2).tolist() == [2.0, 4.0]
        assert scaled(hd.tensor([1.0, 2.0]), 2.5).tolist() == [2.5, 5.0]
        assert scaled(hd.tensor([1.0, 2.0, 3.0]), factor=2).tolist() == [2.0, 4.0, 6.0]
        assert scaled(hd.tensor([1, 2]), True).tolist() == [1, 2]
    assert len(written) == 4


def test_constants_are_told_apart():
    written = []

    @hd.kernel
    def first(k, x, constant, block=4):
        written.append(constant)
        y = k.output(x.shape, x.dtype)
        i = k.range(block)
        y[i] = x[i] * (constant[0] if isinstance(constant, tuple) else constant)

    x = hd.tensor([1.0, 2.0])
    for _ in range(2):
        for constant in ((2,), (2.0,), (True,), 0.0, -0.0, float("nan"), (float("nan"),)):
            first(x, constant)
    assert len(written) == 7
    assert [np.signbit(first(x, zero).tolist()).tolist() for zero in (0.0, -0.0)] == [[False] * 2, [True] * 2]


def test_scalars_of_numpy_are_constants():
    @hd.kernel
    def scaled(k, x, factor, sizes, block):
        assert type(factor) is float and type(block) is int and type(sizes[0]) is int
        y = k.output(sizes, x.dtype)
        i = k.block(-(-x.shape[0] // block)) * block + k.range(block)
        y[i] = x[i] * factor

    x = hd.tensor([1.0, 2.0, 3.0])
    assert scaled(x, np.float32(0.5), (np.int32(3),), block=np.int64(2)).tolist() == [0.5, 1.0, 1.5]


def test_masks_gathers_and_several_results():
    @hd.kernel
    def picked(k, x, ids):
        y, z = k.output(ids.shape, x.dtype), k.output(ids.shape, hd.int32)
        i = k.range(ids.shape[0])
        y[i] = k.load(x, ids[i], mask=i != 1, other=-1)
        k.store(z, i, 0)
        k.store(z, i, i * 10 + i % 2, mask=(i > 0) & (ids[i] >= 0))

    y, z = picked(hd.tensor([5.0, 6.0, 7.0]), hd.tensor([2, 1, -4, 99, 0]))
    assert y.tolist() == [7.0, -1.0, -1.0, -1.0, 5.0]
    assert z.tolist() == [0, 11, 0, 31, 40]


def test_jit_vmap_and_gradients(rng):
    x = hd.tensor(rng.standard_normal((3, 4, 10)).astype("f4"))
    want = softmax_of(x.numpy())
    np.testing.assert_allclose(hd.vmap(softmax)(x), want, rtol=1e-5)
    f = hd.jit(lambda t: softmax(t * 2).sum(0))
    for _ in range(3):
        np.testing.assert_allclose(f(x[0]), softmax_of(x[0].numpy() * 2).sum(0), rtol=1e-5)
    with pytest.raises(ValueError, match="kernel softmax has no gradient.*custom_vjp"):
        hd.grad(lambda t: softmax(t).sum())(x[0])
    own = hd.custom_vjp(softmax, lambda inputs, y, g: y * (g - (g * y).sum(-1, keepdim=True)))
    w = hd.arange(10.0)
    got = hd.grad(lambda t: (own(t) * w).sum())(x[0])
    np.testing.assert_allclose(got, hd.grad(lambda t: (hd.softmax(t, -1) * w).sum())(x[0]), rtol=1e-4, atol=1e-5)


def test_threads_write_one_kernel():
    @hd.kernel
    def twice(k, x):
        y = k.output(x.shape, x.dtype)
        i = k.range(x.shape[0])
        y[i] = x[i] + x[i]

    results = []
    work = lambda n: results.append(twice(hd.ones(n)).tolist() == [2.0] * n)
    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 4) * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 16


def test_what_is_wrong():
    def write(body):
        @hd.kernel
        def wrong(k, x):
            y = k.output(x.shape, x.dtype)
            i = k.range(x.shape[0])
            y[i] = 0
            return body(k, x, y, i)

        wrong(hd.ones(4))

    cases = [
        (hd.ShapeError, "several values for one element", lambda k, x, y, i: k.store(y, 0, x[i])),
        (IndexError, "2 positions for the 1 axes", lambda k, x, y, i: k.load(x, (i, 0)) and None),
        (ValueError, "a result cannot be read", lambda k, x, y, i: y[i] and None),
        (ValueError, "an input cannot be written", lambda k, x, y, i: k.store(x, i, 0)),
        (ValueError, "is no range", lambda k, x, y, i: k.sum(x[i], i + 1)),
        (TypeError, "neither true nor false", lambda k, x, y, i: 1 if x[i] > 0 else 0),
        (TypeError, "not with str", lambda k, x, y, i: k.exp("x")),
        (TypeError, "give the tensor to the kernel", lambda k, x, y, i: k.exp(hd.ones(3))),
        (TypeError, "returns something", lambda k, x, y, i: x[i]),
        (ValueError, "takes 1 operands", lambda k, x, y, i: k.exp(x[i], 2)),
        (ZeroDivisionError, "division", lambda k, x, y, i: 1 // 0),
        (hd.DTypeError, "does not take", lambda k, x, y, i: x[i] & 1),
    ]
    for kind, words, body in cases:
        with pytest.raises(kind, match=words):
            write(body)
    with pytest.raises(TypeError, match="cannot be hashed"):
        add(hd.ones(3), hd.ones(3), [1])
    with pytest.raises(TypeError, match="unsupported operand|cannot"):
        write(lambda k, x, y, i: x[i] + "1")
    leaked = []
    write(lambda k, x, y, i: leaked.append(i))
    with pytest.raises(ValueError, match="has been written already"):
        leaked[0] + 1
    with pytest.raises(ValueError, match="threads"):
        hd.kernel(lambda k, x: None, threads=100)(hd.ones(3))
    assert "f32" in repr_of_a_tile()


def repr_of_a_tile():
    seen = []

    @hd.kernel
    def look(k, x):
        y = k.output(x.shape, x.dtype)
        i = k.range(x.shape[0])
        seen.append(f"{x[i]} {i} {x} {x[i].dtype}")
        y[i] = x[i]

    look(hd.ones(3))
    return seen[0]
