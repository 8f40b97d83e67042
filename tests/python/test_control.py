"""Control flow: the same as plain loops, on nested values, with gradients, captured and mapped."""

import numpy as np
import pytest

import heddle as hd


def test_cond():
    x = hd.tensor([6.0, 8.0])
    for yes in (True, False):
        p = hd.tensor(yes)
        y = hd.cond(p, lambda v: {"a": v / 2, "b": (v, v + 1)}, lambda v: {"a": v * 3, "b": (v * 0, v)}, x)
        assert y["a"].tolist() == ([3.0, 4.0] if yes else [18.0, 24.0])
        assert y["b"][1].tolist() == ([7.0, 9.0] if yes else [6.0, 8.0])
    with pytest.raises(ValueError, match="cond"):
        hd.cond(hd.tensor(True), lambda v: v, lambda v: (v, v), x)
    with pytest.raises(TypeError, match="predicate"):
        hd.cond(hd.tensor(1.0), lambda v: v, lambda v: v, x)


def test_while_loop():
    root = hd.while_loop(lambda v: abs(v * v - 2) > 1e-6, lambda v: (v + 2 / v) / 2, 1.0)
    assert abs(root.item() - 2**0.5) < 1e-6
    state = hd.while_loop(lambda s: s["i"] < 5, lambda s: {"i": s["i"] + 1, "x": s["x"] * 2}, {"i": 0, "x": hd.ones(2)})
    assert state["x"].tolist() == [32.0, 32.0]
    with pytest.raises(ValueError, match="structure"):
        hd.while_loop(lambda s: s[0] < 5, lambda s: s[0], (0, 1))


def test_scan_gradients_and_jit():
    hd.manual_seed(0)
    w, xs = hd.randn(4, 4) * 0.3, hd.randn(6, 2, 4)
    w.realize(), xs.realize()

    def looped(w):
        last, all_h = hd.scan(lambda h, x: ((h @ w + x).tanh(), h), hd.zeros(2, 4), xs)
        return (last * last).sum() + all_h.sum()

    def unrolled(w):
        h, total = hd.zeros(2, 4), 0
        for i in range(6):
            total = total + h.sum()
            h = (h @ w + xs[i]).tanh()
        return (h * h).sum() + total

    a, ga = hd.value_and_grad(looped)(w)
    b, gb = hd.value_and_grad(unrolled)(w)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
    np.testing.assert_allclose(ga.numpy(), gb.numpy(), rtol=1e-4, atol=1e-5)
    step = hd.jit(hd.grad(looped))
    for _ in range(3):
        np.testing.assert_allclose(step(w).numpy(), gb.numpy(), rtol=1e-4, atol=1e-5)


def test_scan_of_nested_values():
    xs = {"a": hd.arange(4, dtype=hd.float32), "b": hd.ones(4, 2)}
    (total, n), ys = hd.scan(lambda c, x: ((c[0] + x["a"] * x["b"], c[1] + 1), {"y": c[0]}), (hd.zeros(2), 0), xs)
    assert total.tolist() == [6.0, 6.0] and n.item() == 4
    assert ys["y"].shape == (4, 2)
    last, _ = hd.scan(lambda c, _: (c * 2, ()), 1.0, length=5)
    assert last.item() == 32.0
    with pytest.raises(ValueError, match="carried value"):
        hd.scan(lambda c, x: (hd.cat([c, c]), x), hd.zeros(2), hd.ones(3))


def test_fori_loop_and_map():
    assert hd.fori_loop(2, 5, lambda i, x: x + i, 0).item() == 9
    assert hd.fori_loop(hd.tensor(2), 5, lambda i, x: x + i, 0).item() == 9
    assert hd.map(lambda x: (x * x).sum(), hd.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist() == [5.0, 25.0]
    many = hd.vmap(lambda x: hd.fori_loop(0, 3, lambda i, v: v * x, x))(hd.tensor([2.0, 3.0]))
    assert many.tolist() == [16.0, 81.0]


def test_a_value_inside_is_refused():
    with pytest.raises(hd.CaptureError, match="scan"):
        hd.scan(lambda c, x: (c * x.item(), x), 1.0, hd.ones(3))


def test_loops_on_another_device():
    x = hd.tensor([1.0, 2.0, 3.0], device="simulated:1")
    loop = lambda v: hd.fori_loop(0, 3, lambda i, c: c * 2 + i, v)  # noqa: E731
    for f in (loop, hd.jit(loop)):
        y = f(x)
        assert y.device == x.device and y.tolist() == [12.0, 20.0, 28.0]
    y, rounds = hd.while_loop(lambda c: c[1] < 5, lambda c: (c[0] * 2, c[1] + 1), (x, 0))
    assert y.tolist() == [32.0, 64.0, 96.0] and rounds.item() == 5
    kept, _ = hd.scan(lambda s, v: (s * 2, s), np.float16(1), length=3)
    assert kept.dtype == hd.float16 and kept.item() == 8
    total, sums = hd.scan(lambda s, v: (s + v, s), 0.0, x)
    assert total.item() == 6 and sums.tolist() == [0.0, 1.0, 3.0] and sums.device == x.device


def test_mistakes_name_what_the_user_wrote():
    with pytest.raises(TypeError, match="scan: the body gives Tensor, not a pair"):
        hd.scan(lambda s, v: s + v, 0.0, hd.ones(3))
    with pytest.raises(TypeError, match="scan: the body gives 3 values, not a pair"):
        hd.scan(lambda s, v: (s, v, v), 0.0, hd.ones(3))
    with pytest.raises(TypeError, match="fori_loop: upper is 3.5"):
        hd.fori_loop(0, 3.5, lambda i, c: c, 1.0)
    with pytest.raises(TypeError, match="carried value 0, which is i64"):
        hd.fori_loop(0, 3, lambda i, c: c * 0.5, 1)
    with pytest.raises(ValueError, match="what the body gives has the structure"):
        hd.fori_loop(0, 3, lambda i, c: None, 1.0)
    with pytest.raises(TypeError, match="cond: one branch gives f32"):
        hd.cond(hd.tensor(True), lambda v: v, lambda v: v.long(), hd.ones(3))
