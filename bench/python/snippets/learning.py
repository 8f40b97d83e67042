"""Layers, losses, gradients."""

from .libraries import F, hd, jax, jnp, np, special, torch
from .snippet import Snippet, normal


class layernorm(Snippet):
    atol = 1e-4

    def inputs(self, rng):
        return normal(rng, 2048, 1024), normal(rng, 1024), normal(rng, 1024)

    def heddle(self, x, w, b):
        return hd.layer_norm(x, (1024,), w, b)

    def torch(self, x, w, b):
        return F.layer_norm(x, (1024,), w, b)

    def jax(self, x, w, b):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-5) * w + b

    def numpy(self, x, w, b):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(var + np.float32(1e-5)) * w + b


class softmax(Snippet):
    def inputs(self, rng):
        return (normal(rng, 4096, 1000),)

    def heddle(self, x):
        return hd.softmax(x, -1)

    def torch(self, x):
        return torch.softmax(x, -1)

    def jax(self, x):
        return jax.nn.softmax(x, -1)

    def numpy(self, x):
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


class attention(Snippet):
    """Causal, 2 x 8 heads of 512 x 64."""

    def inputs(self, rng):
        return normal(rng, 2, 8, 512, 64), normal(rng, 2, 8, 512, 64), normal(rng, 2, 8, 512, 64)

    def heddle(self, q, k, v):
        return hd.scaled_dot_product_attention(q, k, v, is_causal=True)

    def torch(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def jax(self, q, k, v):
        s = (q @ k.swapaxes(-1, -2)) * 0.125
        return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((512, 512), bool)), s, -jnp.inf), -1) @ v

    def numpy(self, q, k, v):
        s = (q @ k.swapaxes(-1, -2)) * np.float32(0.125)
        s = np.where(np.tril(np.ones((512, 512), bool)), s, np.float32(-np.inf))
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v


class cross_entropy(Snippet):
    def inputs(self, rng):
        return normal(rng, 2048, 10000), rng.integers(0, 10000, 2048)

    def heddle(self, x, t):
        return hd.cross_entropy(x, t)

    def torch(self, x, t):
        return F.cross_entropy(x, t)

    def jax(self, x, t):
        return -jnp.take_along_axis(jax.nn.log_softmax(x, -1), t[:, None], 1).mean()

    def numpy(self, x, t):
        top = x.max(-1, keepdims=True)
        return (np.log(np.exp(x - top).sum(-1)) + top[:, 0] - x[np.arange(2048), t]).mean()


class cross_entropy_gradient(Snippet):
    atol = 1e-6

    def inputs(self, rng):
        return normal(rng, 512, 10000), rng.integers(0, 10000, 512)

    def heddle(self, x, t):
        return hd.grad(hd.cross_entropy)(x, t)

    def torch(self, x, t):
        return torch.func.grad(F.cross_entropy)(x, t)

    def jax(self, x, t):
        loss = lambda x: -jnp.take_along_axis(jax.nn.log_softmax(x, -1), t[:, None], 1).mean()  # noqa: E731
        return jax.grad(loss)(x)

    def numpy(self, x, t):
        e = np.exp(x - x.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        p[np.arange(512), t] -= 1
        return p / 512


class gelu_mlp(Snippet):
    rtol, atol = 1e-3, 1e-3

    def inputs(self, rng):
        return normal(rng, 256, 512), normal(rng, 512, 2048) / 32, normal(rng, 2048, 512) / 32

    def heddle(self, x, w1, w2):
        return hd.gelu(x @ w1) @ w2

    def torch(self, x, w1, w2):
        return F.gelu(x @ w1) @ w2

    def jax(self, x, w1, w2):
        return jax.nn.gelu(x @ w1, approximate=False) @ w2

    def numpy(self, x, w1, w2):
        h = x @ w1
        return (h * np.float32(0.5) * (1 + special.erf(h * np.float32(0.5**0.5)))) @ w2


class conv_relu(Snippet):
    rtol, atol = 1e-3, 1e-3

    def inputs(self, rng):
        return normal(rng, 8, 32, 56, 56), normal(rng, 64, 32, 3, 3), normal(rng, 64)

    def heddle(self, x, w, b):
        return hd.relu(hd.conv2d(x, w, b, padding=1))

    def torch(self, x, w, b):
        return F.relu(F.conv2d(x, w, b, padding=1))

    def jax(self, x, w, b):
        return jax.nn.relu(jax.lax.conv(x, w, (1, 1), "SAME") + b[:, None, None])

    def numpy(self, x, w, b):
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        y = np.tensordot(windows, w, ((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)
        return np.maximum(y + b[:, None, None], 0)


class max_pool(Snippet):
    def inputs(self, rng):
        return (normal(rng, 16, 64, 112, 112),)

    def heddle(self, x):
        return hd.max_pool2d(x, 2)

    def torch(self, x):
        return F.max_pool2d(x, 2)

    def jax(self, x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def numpy(self, x):
        return x.reshape(16, 64, 56, 2, 56, 2).max((3, 5))


class logistic_gradient(Snippet):
    """Loss and gradient of a logistic regression."""

    def inputs(self, rng):
        return normal(rng, 100) / 10, normal(rng, 20000, 100), rng.integers(0, 2, 20000).astype(np.float32)

    def heddle(self, w, x, y):
        loss = lambda w: hd.nn.functional.binary_cross_entropy_with_logits(x @ w, y)  # noqa: E731
        return hd.value_and_grad(loss)(w)

    def torch(self, w, x, y):
        gradient, value = torch.func.grad_and_value(lambda w: F.binary_cross_entropy_with_logits(x @ w, y))(w)
        return value, gradient

    def jax(self, w, x, y):
        loss = lambda w: (jax.nn.softplus(x @ w) - y * (x @ w)).mean()  # noqa: E731
        return jax.value_and_grad(loss)(w)

    def numpy(self, w, x, y):
        z = x @ w
        return (np.logaddexp(0, z) - y * z).mean(), x.T @ (1 / (1 + np.exp(-z)) - y) / 20000


class embedding_bag(Snippet):
    """Means of 32 rows of a table."""

    def inputs(self, rng):
        return normal(rng, 50000, 128), rng.integers(0, 50000, (4096, 32))

    def heddle(self, table, ids):
        return table[ids].mean(1)

    def torch(self, table, ids):
        return F.embedding_bag(ids, table, mode="mean")

    def jax(self, table, ids):
        return table[ids].mean(1)

    def numpy(self, table, ids):
        return table[ids].mean(1)
