from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import heddle as hd

Pair = namedtuple("Pair", "first second")


@dataclass
class Point:
    x: object
    y: object


@dataclass(frozen=True)
class Frozen:
    x: object


class Box:
    def __init__(self, value, name):
        self.value, self.name = value, name


hd.register_pytree(Box, lambda box: ((box.value,), box.name), lambda name, children: Box(children[0], name))


def numeric_gradient(f, a, step=1e-6):
    result = np.zeros_like(a)
    for i in np.ndindex(a.shape):
        up, down = a.copy(), a.copy()
        up[i] += step
        down[i] -= step
        result[i] = (f(up) - f(down)) / (2 * step)
    return result


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.sin() * x).sum(),
        lambda x: hd.softmax(x, -1).square().sum(),
        lambda x: (x @ x.T).exp().mean(),
        lambda x: hd.layer_norm(x, 3).cumsum(0).tanh().sum(),
        lambda x: hd.logsumexp(x * x, 0).prod(),
        lambda x: (x[1:] * x[:-1, ::-1]).std(),
        lambda x: hd.cross_entropy(x, hd.tensor([0, 2, 1, 1])),
        lambda x: hd.where(x > 0, x, x.exp() - 1).norm(),
    ],
)
def test_gradients_against_differences(f, rng):
    a = rng.standard_normal((4, 3))
    want = numeric_gradient(lambda v: f(hd.tensor(v)).item(), a)
    np.testing.assert_allclose(hd.grad(f)(hd.tensor(a)).numpy(), want, rtol=1e-5, atol=1e-7)
    w = hd.tensor(a, requires_grad=True)
    np.testing.assert_allclose(hd.grad(f(w), w).numpy(), want, rtol=1e-5, atol=1e-7)
    f(w).backward()
    np.testing.assert_allclose(w.grad.numpy(), want, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(hd.jit(hd.grad(f))(hd.tensor(a)).numpy(), want, rtol=1e-5, atol=1e-7)


def test_grad_of_a_tensor_takes_any_nesting():
    params = {"w": hd.tensor([1.0, 2.0], requires_grad=True), "b": [hd.tensor(3.0, requires_grad=True)]}
    g = hd.grad((params["w"] ** 2).sum() * params["b"][0], params)
    assert g["w"].tolist() == [6, 12] and g["b"][0].item() == 5
    assert isinstance(hd.grad(params["w"].sum(), params["w"]), hd.Tensor)
    assert hd.grad(params["w"] * 2, params["w"], cotangent=hd.tensor([1.0, 10.0])).tolist() == [2, 20]
    with pytest.raises(TypeError):
        hd.grad(params["w"].sum())
    with pytest.raises(TypeError):
        hd.grad(3)


def test_grad_of_functions():
    def f(p, x, scale=1):
        return (p["w"] * x).sum() * scale + p["b"]

    p = {"w": hd.ones(3), "b": 2.0}
    g = hd.grad(f)(p, hd.arange(3.0), scale=2)
    assert g["w"].tolist() == [0, 2, 4] and g["b"].item() == 1
    value, (gp, gx) = hd.value_and_grad(f, argnums=(0, 1))(p, hd.arange(3.0))
    assert value.item() == 5 and gx.tolist() == [1, 1, 1] and gp["b"].item() == 1
    assert hd.grad(f, argnums=-1)(p, hd.arange(3.0)).tolist() == [1, 1, 1]
    gradient, aux = hd.grad(lambda x: (x.sum(), {"twice": x * 2}), has_aux=True)(hd.ones(2))
    assert gradient.tolist() == [1, 1] and aux["twice"].tolist() == [2, 2]
    (value, aux), gradient = hd.value_and_grad(lambda x: (x.sum(), 7), has_aux=True)(hd.ones(2))
    assert value.item() == 2 and aux == 7
    assert hd.grad(hd.grad(lambda x: x**3))(2.0).item() == 12
    with pytest.raises(ValueError):
        hd.grad(lambda x: x)(hd.ones(2))
    with pytest.raises(ValueError, match="argnums"):
        hd.grad(lambda x: x, argnums=3)(1.0)


def test_structures():
    point = Point(hd.tensor(2.0), (hd.tensor(3.0), None))
    g = hd.grad(lambda p: p.x * p.y[0])(point)
    assert isinstance(g, Point) and g.x.item() == 3 and g.y[0].item() == 2 and g.y[1] is None
    g = hd.grad(lambda p: p.first * p.second)(Pair(2.0, 3.0))
    assert isinstance(g, Pair) and g.first.item() == 3
    g = hd.grad(lambda box: box.value * 2)(Box(1.0, "name"))
    assert isinstance(g, Box) and g.name == "name" and g.value.item() == 2
    assert hd.grad(lambda f: f.x * 2)(Frozen(1.0)).x.item() == 2
    doubled = hd.tree_map(lambda a, b: a + b, {"a": [1, 2], "b": (3,)}, {"a": [1, 2], "b": (3,)})
    assert doubled == {"a": [2, 4], "b": (6,)} and hd.tree_leaves([1, {"a": 2}, (3, None)]) == [1, 2, 3]
    leaves, structure = hd.tree_flatten({"a": 1, "b": [2]})
    assert hd.tree_unflatten(structure, leaves) == {"a": 1, "b": [2]} and structure == hd.tree_flatten({"a": 0, "b": [0]})[1]
    assert structure != hd.tree_flatten({"a": 0, "b": (0,)})[1]
    with pytest.raises(ValueError):
        hd.tree_unflatten(structure, [1])
    with pytest.raises(ValueError):
        hd.tree_map(lambda a, b: a, [1], [1, 2])
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError):
        hd.tree_leaves(loop)


def test_vjp_and_jvp():
    y, pull = hd.vjp(lambda a, b: {"p": a * b, "q": a}, hd.tensor([1.0, 2.0]), hd.tensor([3.0, 4.0]))
    ga, gb = pull({"p": hd.ones(2), "q": hd.ones(2)})
    assert y["p"].tolist() == [3, 8] and ga.tolist() == [4, 5] and gb.tolist() == [1, 2]
    with pytest.raises(ValueError):
        pull([hd.ones(2), hd.ones(2)])
    y, t = hd.jvp(lambda a, b: a * b, (2.0, 3.0), (1.0, 10.0))
    assert y.item() == 6 and t.item() == 23
    with pytest.raises(ValueError):
        hd.jvp(lambda a: a, (2.0,), (1.0, 2.0))
    x = hd.tensor([1.0, 2.0])
    assert hd.jacobian(lambda v: v * v, x).tolist() == [[2, 0], [0, 4]]
    assert hd.hessian(lambda v: (v**3).sum(), x).tolist() == [[6, 0], [0, 12]]


def test_vmap(rng):
    a, b = rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
    x, y = hd.tensor(a), hd.tensor(b)
    np.testing.assert_allclose(hd.vmap(hd.dot)(x, y).numpy(), (a * b).sum(1))
    np.testing.assert_allclose(hd.vmap(hd.dot, in_axes=(0, None))(x, y[0]).numpy(), a @ b[0])
    np.testing.assert_allclose(hd.vmap(lambda v: v * 2, in_axes=1, out_axes=1)(x).numpy(), a * 2)
    out = hd.vmap(lambda d, s: {"s": d["x"].sum() * s, "y": (d["y"],)})({"x": x, "y": y}, 3.0)
    np.testing.assert_allclose(out["s"].numpy(), a.sum(1) * 3)
    np.testing.assert_allclose(out["y"][0].numpy(), b)
    np.testing.assert_allclose(hd.vmap(hd.grad(lambda v: (v**3).sum()))(x).numpy(), 3 * a**2, rtol=1e-6)
    np.testing.assert_allclose(hd.vmap(hd.vmap(lambda v: v * v))(x).numpy(), a * a)
    with pytest.raises(hd.CaptureError, match="test_transforms.py:"):
        hd.vmap(lambda v: v * v.sum().item())(x)
    with pytest.raises(ValueError):
        hd.vmap(hd.dot, in_axes=(0,))(x, y)


def test_checkpoint_and_own_gradients():
    f = lambda x: hd.checkpoint(lambda v, k: (v.sin() * k).exp(), x, 2).sum()  # noqa: E731
    assert hd.grad(f)(hd.zeros(2)).tolist() == [2, 2]
    calls = []

    def backward(inputs, output, gradient):
        calls.append(len(inputs))
        return gradient * 7, gradient * 0

    f = hd.custom_vjp(lambda a, b: a * b, backward)
    ga, gb = hd.grad(lambda a, b: f(a, b).sum(), argnums=(0, 1))(hd.ones(2), hd.ones(2))
    assert ga.tolist() == [7, 7] and gb.tolist() == [0, 0] and calls == [2]
    with pytest.raises(ZeroDivisionError):
        hd.grad(lambda x: x / (1 // 0))(1.0)


def test_accumulated_gradients():
    w = hd.tensor([1.0, 2.0], requires_grad=True)
    assert w.grad is None
    (w * w).sum().backward()
    (w * 3).sum().backward()
    assert w.grad.tolist() == [5, 7]
    w.grad = None
    assert w.grad is None
    (w * hd.detach(w)).sum().backward()
    assert w.grad.tolist() == [1, 2] and not w.detach().requires_grad
    with pytest.raises(TypeError):
        hd.tensor([1]).requires_grad_()


def test_no_grad():
    w = hd.tensor([1.0, 2.0], requires_grad=True)
    with hd.no_grad():
        y = w * 2
        assert not hd.is_grad_enabled()
        with hd.no_grad():
            pass
        assert not (y + w).requires_grad
        w -= 1
    assert hd.is_grad_enabled() and not y.requires_grad and w.requires_grad and (w * 2).requires_grad

    @hd.no_grad()
    def f(x):
        return x * 2

    assert not f(w).requires_grad and w.tolist() == [0, 1]
    with pytest.raises(ZeroDivisionError), hd.no_grad():
        1 // 0
    assert hd.is_grad_enabled()
    assert [hd.jit(lambda x: f(x) + x)(w).tolist() for _ in range(3)] == [[0, 3]] * 3
