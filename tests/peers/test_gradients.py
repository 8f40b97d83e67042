"""Gradients against PyTorch's."""

import heddle as hd
import numpy as np
import pytest
import torch
import torch.nn.functional as F

f = hd.nn.functional
rng = np.random.default_rng(0)


def draw(*shape):
    return rng.standard_normal(shape).astype(np.float32)


LABELS = np.array([0, 3, 1, 2])
UNARY = "exp log sqrt rsqrt sin cos tanh sigmoid erf abs square log1p expm1 reciprocal atan asinh sinh".split()
ACTIVATIONS = "relu gelu silu elu selu softplus hardswish mish leaky_relu logsigmoid hardsigmoid softsign celu".split()

# name: (ours, theirs, arrays)
CASES = {
    **{name: (getattr(hd, name), getattr(torch, name), [np.abs(draw(3, 5)) + 0.5]) for name in UNARY},
    **{f"F.{name}": (getattr(f, name), getattr(F, name), [draw(3, 5)]) for name in ACTIVATIONS},
    "broadcast": (lambda a, b: a * b + a / (b * b + 1), lambda a, b: a * b + a / (b * b + 1), [draw(3, 1, 5), draw(4, 1)]),
    "pow": (lambda a, b: a**b, lambda a, b: a**b, [np.abs(draw(3, 4)) + 0.1, draw(3, 4)]),
    "matmul": (hd.matmul, torch.matmul, [draw(2, 3, 4), draw(4, 5)]),
    "einsum": (
        lambda a, b, c: hd.einsum("bij,bjk,kl->bil", a, b, c),
        lambda a, b, c: torch.einsum("bij,bjk,kl->bil", a, b, c),
        [draw(2, 3, 4), draw(2, 4, 5), draw(5, 2)],
    ),
    "softmax": (lambda x: hd.softmax(x, 1), lambda x: torch.softmax(x, 1), [draw(3, 4, 2)]),
    "log_softmax": (lambda x: hd.log_softmax(x, -1), lambda x: torch.log_softmax(x, -1), [draw(3, 4)]),
    "logsumexp": (lambda x: hd.logsumexp(x, 0), lambda x: torch.logsumexp(x, 0), [draw(3, 4)]),
    "prod": (lambda x: hd.prod(x, 1), lambda x: torch.prod(x, 1), [draw(3, 4)]),
    "max": (lambda x: hd.amax(x, 1), lambda x: torch.amax(x, 1), [draw(3, 4)]),
    "var": (lambda x: hd.var(x, 1), lambda x: torch.var(x, 1), [draw(3, 4)]),
    "norm": (lambda x: hd.norm(x, 2.0, 1), lambda x: torch.linalg.vector_norm(x, 2.0, 1), [draw(3, 4)]),
    "cumsum": (lambda x: hd.cumsum(x, 1), lambda x: torch.cumsum(x, 1), [draw(3, 4)]),
    "cumprod": (lambda x: hd.cumprod(x, 1), lambda x: torch.cumprod(x, 1), [draw(3, 4)]),
    "sort": (lambda x: hd.sort(x, 1)[0], lambda x: torch.sort(x, 1)[0], [draw(3, 6)]),
    "topk": (lambda x: hd.topk(x, 2)[0], lambda x: torch.topk(x, 2)[0], [draw(3, 6)]),
    "median": (lambda x: hd.median(x, 1), lambda x: torch.median(x, 1).values, [draw(3, 5)]),
    "index": (lambda x: x[[0, 2, 0], 1:, None], lambda x: x[[0, 2, 0], 1:, None], [draw(3, 4)]),
    "where": (lambda a, b: hd.where(a > 0, a, b), lambda a, b: torch.where(a > 0, a, b), [draw(3, 4), draw(3, 4)]),
    "clamp": (lambda x: x.clamp(-0.5, 0.5), lambda x: x.clamp(-0.5, 0.5), [draw(3, 4)]),
    "pad": (lambda x: f.pad(x, (1, 2)), lambda x: F.pad(x, (1, 2)), [draw(3, 4)]),
    "pad_reflect": (lambda x: f.pad(x, (1, 2), mode="reflect"), lambda x: F.pad(x, (1, 2), mode="reflect"), [draw(2, 3, 4)]),
    "unfold": (lambda x: x.unfold(1, 3, 2), lambda x: x.unfold(1, 3, 2), [draw(3, 8)]),
    "roll_flip": (lambda x: x.roll(1, 0).flip(1), lambda x: x.roll(1, 0).flip(1), [draw(3, 4)]),
    "cross_entropy": (
        lambda x: f.cross_entropy(x, hd.tensor(LABELS), label_smoothing=0.1),
        lambda x: F.cross_entropy(x, torch.tensor(LABELS), label_smoothing=0.1),
        [draw(4, 5)],
    ),
    "smooth_l1": (f.smooth_l1_loss, F.smooth_l1_loss, [draw(3, 4), draw(3, 4)]),
    "huber": (f.huber_loss, F.huber_loss, [draw(3, 4), draw(3, 4)]),
    "layer_norm": (lambda x, w, b: f.layer_norm(x, (4,), w, b), lambda x, w, b: F.layer_norm(x, (4,), w, b), [draw(3, 4), draw(4), draw(4)]),
    "group_norm": (lambda x, w, b: f.group_norm(x, 2, w, b), lambda x, w, b: F.group_norm(x, 2, w, b), [draw(2, 4, 3), draw(4), draw(4)]),
    "conv2d": (
        lambda x, w, b: f.conv2d(x, w, b, stride=2, padding=1, groups=2),
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1, groups=2),
        [draw(2, 4, 7, 6), draw(6, 2, 3, 3), draw(6)],
    ),
    "conv_transpose2d": (
        lambda x, w: f.conv_transpose2d(x, w, stride=2, padding=1),
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        [draw(2, 3, 4, 4), draw(3, 2, 3, 3)],
    ),
    "max_pool2d": (lambda x: f.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 2), [draw(2, 3, 6, 6)]),
    "avg_pool2d": (lambda x: f.avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, 1), [draw(2, 3, 7, 7)]),
    "attention": (
        lambda q, k, v: f.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [draw(2, 2, 5, 4), draw(2, 2, 5, 4), draw(2, 2, 5, 4)],
    ),
    "embedding": (
        lambda w: f.embedding(hd.tensor(LABELS), w),
        lambda w: F.embedding(torch.tensor(LABELS), w),
        [draw(5, 3)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_value_and_gradients(name):
    ours, theirs, arrays = CASES[name]
    x = [hd.tensor(a, requires_grad=True) for a in arrays]
    t = [torch.tensor(a, requires_grad=True) for a in arrays]
    y, expected = ours(*x), theirs(*t)
    assert tuple(y.shape) == tuple(expected.shape)
    np.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    weights = draw(*y.shape)
    (y * hd.tensor(weights)).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    for ours_each, theirs_each in zip(x, t):
        np.testing.assert_allclose(ours_each.grad.numpy(), theirs_each.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_second_derivatives():
    a = draw(4)
    g = lambda x: (x.sin() * x.exp()).sum()  # noqa: E731
    expected = torch.func.hessian(g)(torch.tensor(a))
    np.testing.assert_allclose(hd.hessian(g, hd.tensor(a)).numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)
    expected = torch.func.jacrev(lambda x: x.sin() * x.sum())(torch.tensor(a))
    np.testing.assert_allclose(hd.jacobian(lambda x: x.sin() * x.sum(), hd.tensor(a)).numpy(), expected.numpy(), rtol=1e-4, atol=1e-5)


def test_gradients_per_example():
    w, x = draw(3), draw(6, 3)
    loss = lambda w, x: ((w * x).sum() ** 2).sum()  # noqa: E731
    expected = torch.func.vmap(torch.func.grad(loss), (None, 0))(torch.tensor(w), torch.tensor(x))
    np.testing.assert_allclose(hd.vmap(hd.grad(loss), (None, 0))(hd.tensor(w), hd.tensor(x)).numpy(), expected.numpy(), rtol=1e-4)


def test_gradients_add_up_over_backward():
    x, t = hd.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    for _ in range(3):
        (x * x).sum().backward()
        (t * t).sum().backward()
    assert x.grad.tolist() == t.grad.tolist()
