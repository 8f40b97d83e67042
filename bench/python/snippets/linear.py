"""Products, filters."""

from .libraries import F, hd, jax, jnp, np, torch
from .snippet import Snippet, normal


class matmul(Snippet):
    rtol, atol = 1e-3, 1e-2

    def inputs(self, rng):
        return normal(rng, 1024, 1024), normal(rng, 1024, 1024)

    def heddle(self, a, b):
        return a @ b

    torch = jax = numpy = heddle


class matmul_chain(Snippet):
    rtol, atol = 1e-3, 1e-2

    def inputs(self, rng):
        sizes = (256, 1024, 1024, 1024, 64)
        return tuple(normal(rng, m, n) / np.float32(32) for m, n in zip(sizes, sizes[1:]))

    def heddle(self, a, b, c, d):
        return a @ b @ c @ d

    torch = jax = numpy = heddle


class batched_matmul(Snippet):
    rtol, atol = 1e-3, 1e-3

    def inputs(self, rng):
        return normal(rng, 64, 128, 128), normal(rng, 64, 128, 128)

    def heddle(self, a, b):
        return a @ b

    torch = jax = numpy = heddle


class einsum_chain(Snippet):
    rtol, atol = 1e-3, 1e-1

    def inputs(self, rng):
        return normal(rng, 4, 128, 8, 64), normal(rng, 4, 128, 8, 64), normal(rng, 4, 128, 8, 64)

    def heddle(self, q, k, v):
        return hd.einsum("bhqk,bkhd->bqhd", hd.einsum("bqhd,bkhd->bhqk", q, k), v)

    def torch(self, q, k, v):
        return torch.einsum("bhqk,bkhd->bqhd", torch.einsum("bqhd,bkhd->bhqk", q, k), v)

    def jax(self, q, k, v):
        return jnp.einsum("bhqk,bkhd->bqhd", jnp.einsum("bqhd,bkhd->bhqk", q, k), v)

    def numpy(self, q, k, v):
        scores = np.einsum("bqhd,bkhd->bhqk", q, k, optimize=True)
        return np.einsum("bhqk,bkhd->bqhd", scores, v, optimize=True)


class power_iteration(Snippet):
    """Twenty rounds."""

    def inputs(self, rng):
        return np.abs(normal(rng, 1000, 1000)), np.abs(normal(rng, 1000))

    def heddle(self, a, v):
        def again(_, v):
            v = a @ v
            return v / (v * v).sum().sqrt()

        return hd.fori_loop(0, 20, again, v)

    def torch(self, a, v):
        for _ in range(20):
            v = a @ v
            v = v / (v * v).sum().sqrt()
        return v

    def jax(self, a, v):
        def again(_, v):
            v = a @ v
            return v / jnp.sqrt((v * v).sum())

        return jax.lax.fori_loop(0, 20, again, v)

    def numpy(self, a, v):
        for _ in range(20):
            v = a @ v
            v = v / np.sqrt((v * v).sum())
        return v


class correlation(Snippet):
    """Of 128 columns."""

    rtol, atol = 1e-3, 1e-4

    def inputs(self, rng):
        return (normal(rng, 20000, 128) * np.arange(1, 129, dtype=np.float32),)

    def heddle(self, x):
        z = (x - x.mean(0)) / x.std(0, correction=0)
        return z.T @ z / 20000

    def torch(self, x):
        z = (x - x.mean(0)) / x.std(0, correction=0)
        return z.T @ z / 20000

    def jax(self, x):
        z = (x - x.mean(0)) / x.std(0)
        return z.T @ z / 20000

    def numpy(self, x):
        z = (x - x.mean(0)) / x.std(0)
        return z.T @ z / 20000


class moving_average(Snippet):
    """Of 50 places."""

    atol = 1e-4

    def inputs(self, rng):
        return (normal(rng, 100, 20000),)

    def heddle(self, x):
        return x.unfold(-1, 50, 1).mean(-1)

    def torch(self, x):
        return F.avg_pool1d(x, 50, 1)

    def jax(self, x):
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 50), (1, 1), "VALID") / 50

    def numpy(self, x):
        sums = np.cumsum(x, -1, dtype=np.float64)
        sums[:, 50:] -= sums[:, :-50].copy()
        return (sums[:, 49:] / 50).astype(np.float32)


class exponential_average(Snippet):
    """A recurrence of 1000 steps over 256 series."""

    plain = ("torch",)

    def inputs(self, rng):
        return (normal(rng, 1000, 256),)

    def heddle(self, x):
        def step(y, x):
            y = 0.9 * y + 0.1 * x
            return y, y

        return hd.scan(step, x[0], x)[1]

    def torch(self, x):
        y, result = x[0], []
        for row in x:
            y = 0.9 * y + 0.1 * row
            result.append(y)
        return torch.stack(result)

    def jax(self, x):
        def step(y, x):
            y = 0.9 * y + 0.1 * x
            return y, y

        return jax.lax.scan(step, x[0], x)[1]

    def numpy(self, x):
        y, result = x[0], np.empty_like(x)
        for i, row in enumerate(x):
            y = result[i] = np.float32(0.9) * y + np.float32(0.1) * row
        return result


TAPS = (0.0625, 0.25, 0.375, 0.25, 0.0625)


class gaussian_blur(Snippet):
    """Five by five, of a picture of three colours."""

    def inputs(self, rng):
        return (normal(rng, 3, 1080, 1920),)

    def heddle(self, x):
        x = sum(w * x[:, i : 1076 + i] for i, w in enumerate(TAPS))
        return sum(w * x[:, :, i : 1916 + i] for i, w in enumerate(TAPS))

    def torch(self, x):
        x = sum(w * x[:, i : 1076 + i] for i, w in enumerate(TAPS))
        return sum(w * x[:, :, i : 1916 + i] for i, w in enumerate(TAPS))

    def jax(self, x):
        x = sum(w * x[:, i : 1076 + i] for i, w in enumerate(TAPS))
        return sum(w * x[:, :, i : 1916 + i] for i, w in enumerate(TAPS))

    def numpy(self, x):
        x = sum(np.float32(w) * x[:, i : 1076 + i] for i, w in enumerate(TAPS))
        return sum(np.float32(w) * x[:, :, i : 1916 + i] for i, w in enumerate(TAPS))


class gray_gamma(Snippet):
    """Bytes of three colours to bytes of gray."""

    atol = 1  # a value between two bytes

    def inputs(self, rng):
        return rng.integers(0, 256, (1080, 1920, 3), dtype=np.uint8), np.array([0.299, 0.587, 0.114], np.float32)

    def heddle(self, x, w):
        gray = (x.to(hd.float32) / 255 * w).sum(-1) ** (1 / 2.2)
        return hd.clamp(hd.round(gray * 255), 0, 255).to(hd.uint8)

    def torch(self, x, w):
        gray = (x.to(torch.float32) / 255 * w).sum(-1) ** (1 / 2.2)
        return torch.clamp(torch.round(gray * 255), 0, 255).to(torch.uint8)

    def jax(self, x, w):
        gray = (x.astype(jnp.float32) / 255 * w).sum(-1) ** (1 / 2.2)
        return jnp.clip(jnp.round(gray * 255), 0, 255).astype(jnp.uint8)

    def numpy(self, x, w):
        gray = (x.astype(np.float32) / 255 * w).sum(-1) ** np.float32(1 / 2.2)
        return np.clip(np.round(gray * 255), 0, 255).astype(np.uint8)
