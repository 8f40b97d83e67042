#!/usr/bin/env python3
"""JAX beside Heddle: everything under jax.jit. It has no switch for threads and takes the cores that it may run on."""

import os
from functools import lru_cache

import models
from peer import Skip, main


def load(arguments):
    os.environ["JAX_PLATFORMS"] = "cpu"
    if arguments.threads == 1:
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false " + os.environ.get("XLA_FLAGS", "")
    import jax
    import jax.numpy as jnp
    import numpy

    random = numpy.random.default_rng(1)
    dtypes = {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16, "i8": jnp.int8}

    def dtype_of(row):
        if row["dtype"] not in dtypes:
            raise Skip(f"no {row['dtype']}")
        return dtypes[row["dtype"]]

    def noise(shape, dtype=jnp.float32, scale=1.0):
        values = random.standard_normal(shape, dtype=numpy.float32) * scale
        return jnp.asarray(numpy.clip(values * 40, -127, 127) if dtype == jnp.int8 else values).astype(dtype)

    def timed(function, *values):
        compiled = jax.jit(function)
        return lambda: jax.block_until_ready(compiled(*values))

    class Ops:
        relu = staticmethod(jax.nn.relu)

        @staticmethod
        def gelu(x):
            return jax.nn.gelu(x, approximate=True)

        @staticmethod
        def layer_norm(x, gain, bias):
            centred = x - x.mean(-1, keepdims=True)
            return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * gain + bias

        @staticmethod
        def attention(q, k, v, causal):
            scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
            if causal:
                scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
            return jax.nn.softmax(scores, -1) @ v

        @staticmethod
        def conv2d(x, w, stride, padding, groups=1):
            return jax.lax.conv_general_dilated(x, w, (stride, stride), [(padding, padding)] * 2,
                                                feature_group_count=groups)

        @staticmethod
        def max_pool_3_2_1(x):
            window, strides = (1, 1, 3, 3), (1, 1, 2, 2)
            return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, strides, [(0, 0), (0, 0), (1, 1), (1, 1)])

        @staticmethod
        def mean_over(x, axes):
            return x.mean(axes)

    def parameters(shapes, dtype=jnp.float32):
        return {name: noise(shape, dtype, 0.02) for name, shape in shapes.items()}

    def matmul(row):
        dtype, batch = dtype_of(row), row["batch"]

        def factor(rows, columns, transposed):
            shape = (columns, rows) if transposed else (rows, columns)
            return noise((batch, *shape) if batch > 1 else shape, dtype)

        a_transposed, b_transposed = (letter == "t" for letter in row["transpose"])

        def multiply(x, y):
            x = x.swapaxes(-1, -2) if a_transposed else x
            y = y.swapaxes(-1, -2) if b_transposed else y
            return jnp.matmul(x, y, preferred_element_type=jnp.int32 if dtype == jnp.int8 else dtype)

        a, b = factor(row["m"], row["k"], a_transposed), factor(row["k"], row["n"], b_transposed)
        return timed(multiply, a, b)

    def conv(row):
        dtype, groups = dtype_of(row), row.get("groups", 1)
        x = noise((row["batch"], row["channels"], row["height"], row["width"]), dtype)
        w = noise((row["filters"], row["channels"] // groups, row["kernel"], row["kernel"]), dtype)
        return timed(lambda x, w: Ops.conv2d(x, w, row["stride"], row["padding"], groups), x, w)

    def attention(row):
        shape = (row.get("batch", 1), row["heads"], row["time"], row["width"])
        q, k, v, g = (noise(shape, dtype_of(row)) for _ in range(4))
        if not row.get("backward"):
            return timed(lambda q, k, v: Ops.attention(q, k, v, row["causal"]), q, k, v)
        weighted = lambda q, k, v: (Ops.attention(q, k, v, row["causal"]) * g).sum()  # noqa: E731
        return timed(jax.grad(weighted, (0, 1, 2)), q, k, v)

    def cross_entropy(logits, targets):
        return -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1).mean()

    def training_step(p, loss_of):
        """AdamW as PyTorch does it; parameters and moments are given away at each call, and updated in place."""

        def step(p, m, v, t):
            slopes = jax.grad(loss_of)(p)
            m = {n: 0.9 * m[n] + 0.1 * slopes[n] for n in p}
            v = {n: 0.999 * v[n] + 0.001 * slopes[n] ** 2 for n in p}
            first, second = 1 - 0.9**t, 1 - 0.999**t
            p = {n: p[n] * (1 - 1e-6) - 1e-4 * (m[n] / first) / (jnp.sqrt(v[n] / second) + 1e-8) for n in p}
            return ({n: p[n].astype(slopes[n].dtype) for n in p}, {n: m[n].astype(slopes[n].dtype) for n in p},
                    {n: v[n].astype(slopes[n].dtype) for n in p}, t + 1)

        compiled = jax.jit(step, donate_argnums=(0, 1, 2))
        state = [p, {n: jnp.zeros_like(x) for n, x in p.items()}, {n: jnp.zeros_like(x) for n, x in p.items()},
                 jnp.float32(1)]

        def run():
            state[:] = jax.block_until_ready(compiled(*state))

        return run

    def integers(limit, shape):
        return jnp.asarray(random.integers(0, limit, shape))

    def mlp_step(row):
        sizes = row["sizes"]
        x, t = noise((row["batch"], sizes[0]), dtype_of(row)), integers(sizes[-1], row["batch"])
        return training_step(parameters(models.mlp_shapes(sizes), dtype_of(row)),
                             lambda p: cross_entropy(models.mlp(Ops, p, x), t))

    def ids(row):
        return integers(models.VOCABULARY, (row["batch"], row["tokens"]))

    def gpt2_forward(row):
        return timed(lambda p, tokens: models.gpt2(Ops, p, tokens), parameters(models.gpt2_shapes(), dtype_of(row)),
                     ids(row))

    def gpt2_step(row):
        tokens, targets = ids(row), ids(row)
        return training_step(parameters(models.gpt2_shapes(), dtype_of(row)),
                             lambda p: cross_entropy(models.gpt2(Ops, p, tokens), targets))

    def resnet18(row):
        return timed(lambda p, x: models.resnet18(Ops, p, x), parameters(models.resnet18_shapes()),
                     noise((row["batch"], 3, 224, 224)))

    memory_cases = {
        "x + y": lambda x, y: x + y,
        "exp(x)": lambda x, y: jnp.exp(x),
        "gelu(2x + 1) * sigmoid(x)": lambda x, y: jax.nn.gelu(x * 2 + 1, approximate=False) * jax.nn.sigmoid(x),
        "tanh(x)": lambda x, y: jnp.tanh(x),
        "erf(x)": lambda x, y: jax.scipy.special.erf(x),
        "where(x > 0, x, y)": lambda x, y: jnp.where(x > 0, x, y),
        "cast to bf16": lambda x, y: x.astype(jnp.bfloat16),
        "softmax": lambda x, y: jax.nn.softmax(x, -1),
        "log_softmax": lambda x, y: jax.nn.log_softmax(x, -1),
        "layernorm": lambda x, y: Ops.layer_norm(x, 1, 0),
        "rmsnorm": lambda x, y: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5),
        "cumsum along rows": lambda x, y: jnp.cumsum(x, -1),
        "cumsum along columns": lambda x, y: jnp.cumsum(x, 0),
        "cumsum of everything": lambda x, y: jnp.cumsum(x),
        "transpose, copied": lambda x, y: x.T,
    }
    for where, axis in {"rows": -1, "columns": 0, "everything": None}.items():
        memory_cases |= {
            f"sum over {where}": lambda x, y, a=axis: jnp.sum(x, a),
            f"max over {where}": lambda x, y, a=axis: jnp.max(x, a),
            f"mean over {where}": lambda x, y, a=axis: jnp.mean(x, a),
            f"var over {where}": lambda x, y, a=axis: jnp.var(x, a),
            f"argmax over {where}": lambda x, y, a=axis: jnp.argmax(x, a),
            f"logsumexp over {where}": lambda x, y, a=axis: jax.nn.logsumexp(x, a),
        }

    @lru_cache(maxsize=1)  # many rows in turn have the same
    def large(rows, columns, dtype):
        return noise((rows, columns), dtype), noise((rows, columns), dtype)

    def memory(row):
        if row["name"] not in memory_cases:
            raise Skip("not written for it")
        x, y = large(row["rows"], row["columns"], dtype_of(row))
        return timed(memory_cases[row["name"]], x, y)

    works = [matmul, conv, attention, mlp_step, gpt2_forward, gpt2_step, resnet18, memory]
    return {"about": jax.__version__, "works": {work.__name__: work for work in works}}


if __name__ == "__main__":
    main("JAX", load)
