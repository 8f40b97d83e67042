"""Operators against NumPy, as functions and as methods, with both spellings of their arguments."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

import heddle as hd


def close(got, want, rtol=2e-5, atol=1e-6):
    want = np.asarray(want)
    got = got.numpy()
    assert got.shape == want.shape, (got.shape, want.shape)
    np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=rtol, atol=atol)


UNARY = {
    "abs": None, "sign": None, "floor": None, "ceil": None, "trunc": None, "exp": None, "exp2": None, "expm1": None,
    "sin": None, "cos": None, "tan": None, "sinh": None, "cosh": None, "tanh": None, "asinh": np.arcsinh,
    "atan": np.arctan, "arctan": None, "cbrt": None, "sinc": None, "rad2deg": None, "deg2rad": None, "isnan": None,
    "isinf": None, "isfinite": None, "signbit": None, "logical_not": None, "square": None, "neg": np.negative,
    "negative": None, "absolute": None, "round": np.round, "reciprocal": None,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "silu": lambda x: x / (1 + np.exp(-x)),
    "softsign": lambda x: x / (1 + abs(x)), "erf": np.vectorize(math.erf),
}  # fmt: skip
POSITIVE = {"log": None, "log2": None, "log10": None, "log1p": None, "sqrt": None, "rsqrt": lambda x: x**-0.5, "acosh": np.arccosh}


@pytest.mark.parametrize("name", [*UNARY, *POSITIVE])
def test_unary(name, rng):
    function = UNARY.get(name) or POSITIVE.get(name) or getattr(np, name)
    a = rng.standard_normal((3, 5)) * 2
    a = np.abs(a) + 1.1 if name in POSITIVE else a
    want = function(a)
    close(getattr(hd, name)(hd.tensor(a)), want)
    close(getattr(hd.tensor(a), name)(), want)
    close(getattr(hd, name)(input=a), want)


BINARY = ["add", "subtract", "multiply", "divide", "true_divide", "minimum", "maximum", "fmin", "fmax", "arctan2"]
BINARY += ["copysign", "hypot", "logaddexp", "logaddexp2", "fmod", "remainder", "floor_divide", "power", "less", "equal_"]
BINARY += ["less_equal", "greater", "greater_equal", "not_equal", "logical_and", "logical_or", "logical_xor", "nextafter"]


@pytest.mark.parametrize("name", [name for name in BINARY if not name.endswith("_")])
def test_binary(name, rng):
    a, b = rng.random((3, 4)) + 0.5, rng.random(4) + 0.5
    want = getattr(np, name)(a, b)
    close(getattr(hd, name)(hd.tensor(a), hd.tensor(b)), want)
    close(getattr(hd.tensor(a), name)(hd.tensor(b)), want)
    close(getattr(hd, name)(hd.tensor(a), 0.75), getattr(np, name)(a, 0.75))


REDUCTIONS = ["sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "ptp", "amax", "amin", "count_nonzero"]
REDUCTIONS += ["nansum", "nanprod", "nanmean", "nanmax", "nanmin", "median"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, rng):
    a = rng.standard_normal((2, 3, 4))
    x, f = hd.tensor(a), getattr(np, name)
    more = {"correction": 0} if name in ("var", "std") else {}
    mine = getattr(hd, name)
    close(mine(x, **more), f(a))
    for axis in (0, -1, 1):
        close(mine(x, axis, **more), f(a, axis))
        close(mine(x, dim=axis, keepdim=True, **more), f(a, axis=axis, keepdims=True))
        close(getattr(x, name)(axis=axis, keepdims=True, **more), f(a, axis=axis, keepdims=True))
    if name != "median":
        close(mine(x, (0, 2), **more), f(a, axis=(0, 2)))
        close(mine(x, axis=[-1], **more), f(a, axis=(-1,)))


def test_no_axes_are_none_of_them(rng):
    a = rng.standard_normal((2, 3))
    close(hd.tensor(a).sum(dim=()), a.sum(axis=()))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "argmax", "argmin"])
def test_along_an_axis(name, rng):
    a = rng.standard_normal((3, 4))
    for axis in (None, 0, 1, -1):
        close(getattr(hd, name)(hd.tensor(a), dim=axis), getattr(np, name)(a, axis=axis))
        close(getattr(hd.tensor(a), name)(axis=axis), getattr(np, name)(a, axis=axis))


def test_corrections(rng):
    a = rng.standard_normal(9)
    close(hd.tensor(a).var(), a.var(ddof=1))
    close(hd.tensor(a).std(ddof=0), a.std())
    close(hd.norm(hd.tensor(a)), np.linalg.norm(a))
    close(hd.norm(hd.tensor(a), 1), np.linalg.norm(a, 1))
    close(hd.logsumexp(hd.tensor(a)), np.log(np.exp(a).sum()))
    e = np.exp(a - a.max())
    close(hd.softmax(hd.tensor(a), dim=0), e / e.sum())
    close(hd.tensor(a).log_softmax(-1), np.log(e / e.sum()))


def test_shapes(rng):
    a = rng.standard_normal((2, 3, 4))
    x = hd.tensor(a)
    for got, want in [
        (x.reshape(6, 4), a.reshape(6, 4)), (x.reshape((6, 4)), a.reshape(6, 4)), (hd.reshape(x, (-1, 2)), a.reshape(-1, 2)),
        (x.reshape(-1), a.ravel()), (x.view(4, 6), a.reshape(4, 6)), (x.flatten(), a.ravel()), (x.flatten(1), a.reshape(2, 12)),
        (x.permute(2, 0, 1), a.transpose(2, 0, 1)), (x.permute((2, 0, 1)), a.transpose(2, 0, 1)), (x.T, a.T),
        (x.transpose(0, 2), a.swapaxes(0, 2)), (x.transpose(), a.T), (x.transpose(2, 0, 1), a.transpose(2, 0, 1)),
        (x.swapaxes(0, 1), a.swapaxes(0, 1)), (x.moveaxis(0, -1), np.moveaxis(a, 0, -1)), (x.mT, a.swapaxes(-1, -2)),
        (x.unsqueeze(1), a[:, None]), (hd.expand_dims(x, axis=(0, 2)), np.expand_dims(a, (0, 2))), (x[:, None].squeeze(), a),
        (x[:, None].squeeze(1), a), (x[:1].expand(5, 3, 4), np.broadcast_to(a[:1], (5, 3, 4))), (x.flip(0), a[::-1]),
        (hd.flip(x), np.flip(a)), (hd.flip(x, (0, 1)), np.flip(a, (0, 1))), (hd.roll(x, 1), np.roll(a, 1)),
        (hd.roll(x, (1, -2), axis=(0, 1)), np.roll(a, (1, -2), (0, 1))), (hd.tile(x, 2, 1, 3), np.tile(a, (2, 1, 3))),
        (x.repeat_interleave(2, dim=1), a.repeat(2, 1)), (hd.rot90(x), np.rot90(a)), (hd.tril(x), np.tril(a)),
        (hd.triu(x, 1), np.triu(a, 1)), (hd.diagonal(x), np.diagonal(a)), (hd.trace(x[:, :2, 0]), np.trace(a[:, :2, 0])),
        (hd.cat([x, x], 1), np.concatenate([a, a], 1)), (hd.concatenate((x, x), axis=0), np.concatenate([a, a])),
        (hd.stack([x, x], dim=-1), np.stack([a, a], -1)), (hd.vstack([x, x]), np.vstack([a, a])), (hd.hstack([x, x]), np.hstack([a, a])),
        (hd.pad(x, 1), np.pad(a, 1)), (hd.pad(x, ((0, 1), (2, 0), (1, 1)), value=7), np.pad(a, ((0, 1), (2, 0), (1, 1)), constant_values=7)),
        (hd.pad(x, (1, 2)), np.pad(a, ((0, 0), (0, 0), (1, 2)))), (hd.pad(x, [(1, 1)], mode="edge"), np.pad(a, 1, "edge")),
        (hd.broadcast_to(x, (5, 2, 3, 4)), np.broadcast_to(a, (5, 2, 3, 4))), (x.narrow(1, 1, 2), a[:, 1:3]),
        (x.select(1, 2), a[:, 2]), (x.diff(), np.diff(a)), (x.unflatten(2, (2, 2)), a.reshape(2, 3, 2, 2)),
    ]:  # fmt: skip
        close(got, want)
    for parts, want in [(x.split(2, dim=2), np.split(a, 2, 2)), (x.split([1, 3], 2), np.split(a, [1], 2)), (x.chunk(3, 1), np.split(a, 3, 1)), (x.unbind(1), list(np.moveaxis(a, 1, 0)))]:
        assert isinstance(parts, tuple) and len(parts) == len(want)
        for got, each in zip(parts, want):
            close(got, each)


def test_creation():
    close(hd.zeros(2, 3), np.zeros((2, 3)))
    close(hd.ones((2, 3), dtype="i32"), np.ones((2, 3)))
    close(hd.zeros(shape=(2,)), np.zeros(2))
    close(hd.zeros(()), np.zeros(()))
    close(hd.full((2, 2), 7), np.full((2, 2), 7))
    assert hd.full((2,), 7).dtype == hd.int64 and hd.full((2,), 7.0).dtype == hd.float32 and hd.full(2, True).dtype == hd.bool
    close(hd.full((3,), hd.tensor(2.0)), np.full(3, 2))
    for args in ((5,), (2, 9), (2, 9, 3), (9, 2, -2), (0.0, 1.0, 0.25), (5.0,)):
        close(hd.arange(*args), np.arange(*args))
    close(hd.linspace(0, 1, 7), np.linspace(0, 1, 7))
    close(hd.eye(3), np.eye(3))
    close(hd.eye(2, 4, k=1), np.eye(2, 4, 1))
    close(hd.tri(3), np.tri(3))
    close(hd.ones_like(hd.zeros(3)), np.ones(3))
    a, b = np.arange(3.0), np.arange(2.0)
    for got, want in zip(hd.meshgrid(hd.tensor(a), hd.tensor(b)), np.meshgrid(a, b)):
        close(got, want)


def test_sizes_of_many_kinds():
    for size in ((2, 3), [2, 3], np.array([2, 3]), hd.tensor([2, 3]), (np.int64(2), hd.tensor(3))):
        assert hd.zeros(size).shape == (2, 3) and hd.ones(6).reshape(size).shape == (2, 3), size
    assert hd.zeros(hd.tensor(3)).shape == (3,) and hd.zeros(np.array(3)).shape == (3,) and hd.zeros(np.int8(2), 3).shape == (2, 3)
    assert hd.zeros(range(3)).shape == (0, 1, 2)


def test_numpy_functions_give_tensors(rng):
    a = rng.random(3)
    for got, want in ((np.exp(hd.tensor(a)), np.exp(a)), (np.add(a, hd.tensor(a)), a + a), (a / hd.tensor(a), a / a), (np.float64(2) ** hd.tensor(a), 2**a)):
        assert isinstance(got, hd.Tensor)
        close(got, want)
    with pytest.raises(TypeError):
        np.frexp(hd.tensor(a))


def test_products(rng):
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 4, 5))
    x, y = hd.tensor(a), hd.tensor(b)
    close(x @ y, a @ b)
    close(hd.bmm(x, y), a @ b)
    close(hd.einsum("bij,bjk->bik", x, y), a @ b)
    close(hd.einsum("bij->ji", x), np.einsum("bij->ji", a))
    close(hd.tensordot(x, y, ([2], [1])), np.tensordot(a, b, ([2], [1])))
    close(hd.tensordot(x, y[0], dims=1), np.tensordot(a, b[0], 1))
    close(hd.outer(x[0, 0], y[0, 0]), np.outer(a[0, 0], b[0, 0]))
    close(hd.inner(x, x), np.inner(a, a))
    close(hd.kron(x[0], y[0]), np.kron(a[0], b[0]))
    close(hd.cross(x[..., :3], x[..., 1:]), np.cross(a[..., :3], a[..., 1:]))
    close(hd.dot(x[0, 0], x[0, 1]), np.dot(a[0, 0], a[0, 1]))


def test_selection(rng):
    a = rng.permutation(24).reshape(4, 6).astype("f4")
    x = hd.tensor(a)
    close(hd.where(x > 5, x, 0), np.where(a > 5, a, 0))
    close(x.clamp(3, 9), a.clip(3, 9))
    close(hd.clip(x, min=4), a.clip(4, None))
    close(x.clamp(max=4), a.clip(None, 4))
    values, indices = hd.sort(x, descending=True)
    close(values, -np.sort(-a))
    close(indices, np.argsort(-a))
    top = x.topk(2)
    close(top.values, -np.sort(-a)[:, :2])
    assert top.indices.dtype == hd.int64
    close(x.argsort(0), a.argsort(0))
    close(hd.nonzero(x > 20), np.argwhere(a > 20))
    for got, want in zip(hd.nonzero(x > 20, as_tuple=True), np.nonzero(a > 20)):
        close(got, want)
    close(hd.masked_select(x, x > 20), a[a > 20])
    close(x.masked_fill(x > 20, -1), np.where(a > 20, -1, a))
    ids = np.array([2, 0, -1])
    close(hd.take(x, hd.tensor(ids), axis=1), a.take(ids, 1))
    close(x.index_select(0, hd.tensor([2, 0])), a[[2, 0]])
    close(x.gather(1, hd.tensor([[0], [1], [2], [3]])), np.take_along_axis(a, np.array([[0], [1], [2], [3]]), 1))
    close(hd.zeros(3).index_add(0, hd.tensor([0, 0, 2]), hd.tensor([1.0, 2, 3])), [3, 0, 3])
    close(hd.one_hot(hd.tensor([2, 0]), 3), np.eye(3)[[2, 0]])
    values, counts = hd.unique(hd.tensor([3, 1, 3]), return_counts=True)
    assert values.tolist() == [1, 3] and counts.tolist() == [1, 2]
    assert hd.unique(hd.tensor([2, 2])).tolist() == [2]
    assert hd.bincount(hd.tensor([0, 2, 2])).tolist() == [1, 0, 2]
    counts, edges = hd.histogram(x, bins=4, range=(0, 24))
    np.testing.assert_array_equal(counts.numpy(), np.histogram(a, 4, (0, 24))[0])
    close(hd.searchsorted(hd.tensor([1.0, 3, 5]), hd.tensor([0.0, 4])), [0, 2])
    close(hd.quantile(x, 0.3), np.quantile(a, 0.3))
    assert hd.allclose(x, x) and not hd.equal(x, x + 1) and hd.isclose(x, x).all()


def test_casts():
    x = hd.tensor([-1.7, 300])
    assert x.to("uint8").tolist() == [0, 255] and x.astype(hd.int32).tolist() == [-1, 300] and x.long().dtype == hd.int64
    assert x.half().dtype == hd.float16 and x.to(dtype=np.float64).dtype == hd.float64 and x.bool().tolist() == [True, True]
    assert hd.tensor([1.0]).bitcast("i32").tolist() == [1065353216]


def test_networks(rng):
    x, w = rng.standard_normal((2, 3, 8)), rng.standard_normal((4, 3, 3))
    want = np.stack([[sum(np.correlate(x[n, c], w[k, c], "valid") for c in range(3)) for k in range(4)] for n in range(2)])
    close(hd.conv1d(hd.tensor(x), hd.tensor(w)), want)
    close(hd.conv1d(hd.tensor(x), hd.tensor(w), stride=2), want[:, :, ::2])
    assert hd.conv2d(hd.ones(1, 3, 5, 5), hd.ones(8, 3, 3, 3), stride=2, padding=1).shape == (1, 8, 3, 3)
    assert hd.conv1d(hd.ones(1, 1, 5), hd.ones(1, 1, 3), padding="same").shape == (1, 1, 5)
    close(hd.max_pool1d(hd.tensor(x), 2), x.reshape(2, 3, 4, 2).max(-1))
    close(hd.avg_pool1d(hd.tensor(x), 2, stride=2), x.reshape(2, 3, 4, 2).mean(-1))
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    close(hd.layer_norm(hd.tensor(x), 8), (x - mean) / np.sqrt(var + 1e-5))
    logits, t = rng.standard_normal((5, 3)), np.array([0, 2, 1, 1, 0])
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    close(hd.cross_entropy(hd.tensor(logits), hd.tensor(t)), -logp[range(5), t].mean())
    close(hd.cross_entropy(hd.tensor(logits), hd.tensor(t), reduction="none"), -logp[range(5), t])
    close(hd.mse_loss(hd.tensor(logits), hd.zeros(5, 3, dtype="f64"), "sum"), (logits**2).sum())
    q = rng.standard_normal((2, 4, 6))
    scores = q @ q.swapaxes(1, 2) / np.sqrt(6)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    close(hd.scaled_dot_product_attention(hd.tensor(q), hd.tensor(q), hd.tensor(q)), weights @ q)
    with pytest.raises(ValueError, match="reduction"):
        hd.mse_loss(hd.ones(2), hd.ones(2), reduction="average")


def test_random_numbers():
    hd.manual_seed(3)
    a = hd.randn(1000).numpy()
    hd.manual_seed(3)
    assert (hd.randn(1000).numpy() == a).all() and abs(a.mean()) < 0.2 and abs(a.std() - 1) < 0.1
    g = hd.Generator(7)
    state = g.get_state()
    first = hd.rand(2, 3, generator=g).numpy()
    g.set_state(state)
    assert (hd.rand(2, 3, generator=g).numpy() == first).all() and ((0 <= first) & (first < 1)).all()
    k = hd.randint(2, 9, (100,)).numpy()
    assert k.min() >= 2 and k.max() < 9 and hd.randint(5, (3,)).shape == (3,)
    assert sorted(hd.randperm(10).tolist()) == list(range(10))
    assert hd.uniform((3,), 5, 6).min().item() >= 5 and hd.normal((4,), dtype="f64").dtype == hd.float64
    assert hd.bernoulli((5,), 1.0).all() and hd.rand(3, requires_grad=True).requires_grad
    assert hd.dropout(hd.ones(1000), 0.5).max().item() == 2 and hd.dropout(hd.ones(3), 0.5, training=False).tolist() == [1, 1, 1]


def test_empty_and_scalar_operands():
    for shape in ((0,), (2, 0), (0, 3), ()):
        a = np.ones(shape, "f4")
        x = hd.tensor(a)
        close((x * 2 + 1).sum(), (a * 2 + 1).sum())
        close(hd.cat([x.reshape(-1), x.reshape(-1)]), np.concatenate([a.ravel(), a.ravel()]))
        assert x.tolist() == a.tolist() and hd.tensor(x.tolist()).numpy().size == a.size
    with pytest.raises(ValueError):
        hd.zeros(0).max()


def test_every_function_has_a_signature():
    import inspect

    from heddle import _core

    for name in dir(_core):
        function = getattr(_core, name)
        if type(function).__name__ == "function":
            assert function.__name__ == name or getattr(_core, function.__name__) is function
            assert str(inspect.signature(function)) and function.__doc__.startswith(function.__name__)
    assert hd.var.__doc__.startswith("var(x, dim=None") and "Divides by n - correction" in hd.Tensor.var.__doc__
    assert str(inspect.signature(hd.reshape)) == "(x, *shape)"


# What Python writes with brackets, or as tensor() of a number or a list.
OTHERWISE = {"at", "set_at", "index", "slice", "scalar", "from_data", "from_vector"}


def test_every_operator_of_the_headers_is_there():
    include = Path(__file__).resolve().parents[2] / "include/heddle"
    kinds = r"Tensor|bool|void|ValuesIndices|UniqueResult|Histogram|std::vector<Tensor>|std::pair<Tensor, Tensor>"
    names = set()
    for header in [*include.glob("ops/*.h"), include / "nn/loss.h"]:
        names |= set(re.findall(rf"^(?:{kinds}) (\w+)\(", header.read_text(encoding="utf-8"), re.M))
    assert len(names) > 280
    assert {name for name in names if not hasattr(hd, name)} == OTHERWISE


@pytest.mark.parametrize("n", [1, 65, 4096, 8193, 70001])
def test_order_of_bools(n, rng):
    for share in (0.0, 0.3, 0.999, 1.0):
        mask = rng.random(n) < share
        x = hd.tensor(mask)
        assert np.array_equal(hd.nonzero(x).numpy()[:, 0], np.nonzero(mask)[0])
        for descending in (False, True):
            values, places = hd.sort(x, -1, descending)
            order = np.argsort(~mask if descending else mask, kind="stable")
            assert np.array_equal(places.numpy(), order) and np.array_equal(values.numpy(), mask[order])
        kept = max(1, n // 3)
        values, places = hd.topk(x, kept)
        assert np.array_equal(places.numpy(), order[:kept]) and np.array_equal(values.numpy(), mask[order][:kept])


def test_means_of_rows_of_a_table(rng):
    for width in (1, 16, 100, 128, 300, 1000):
        table, ids = rng.standard_normal((50, width), dtype=np.float32), rng.integers(-50, 50, (70, 9))
        for dtype in ("int32", "int64"):
            mean = hd.tensor(table)[hd.tensor(ids.astype(dtype))].mean(1)
            np.testing.assert_allclose(mean.numpy(), table[ids].mean(1), rtol=1e-5, atol=1e-6)
