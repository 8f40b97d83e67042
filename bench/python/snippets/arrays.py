"""Sums so far, orders, counts, positions."""

from .libraries import hd, jax, jnp, np, torch
from .snippet import Snippet, normal


class cumsum(Snippet):
    rtol, atol = 1e-3, 1e-1

    def inputs(self, rng):
        return (normal(rng, 4_000_000),)

    def heddle(self, x):
        return hd.cumsum(x, 0)

    def torch(self, x):
        return torch.cumsum(x, 0)

    def jax(self, x):
        return jnp.cumsum(x, 0)

    def numpy(self, x):
        return np.cumsum(x, 0)


class sort(Snippet):
    def inputs(self, rng):
        return (normal(rng, 1_000_000),)

    def heddle(self, x):
        return hd.sort(x)[0]

    def torch(self, x):
        return torch.sort(x)[0]

    def jax(self, x):
        return jnp.sort(x)

    def numpy(self, x):
        return np.sort(x)


class sort_rows(Snippet):
    def inputs(self, rng):
        return (normal(rng, 1000, 1000),)

    def heddle(self, x):
        return hd.sort(x, -1)[0]

    def torch(self, x):
        return torch.sort(x, -1)[0]

    def jax(self, x):
        return jnp.sort(x, -1)

    def numpy(self, x):
        return np.sort(x, -1)


class argsort(Snippet):
    def inputs(self, rng):
        return (rng.permutation(1_000_000).astype(np.float32),)

    def heddle(self, x):
        return hd.argsort(x)

    def torch(self, x):
        return torch.argsort(x)

    def jax(self, x):
        return jnp.argsort(x)

    def numpy(self, x):
        return np.argsort(x)


class topk(Snippet):
    """Ten of each row, and where they are."""

    def inputs(self, rng):
        return (rng.permuted(np.tile(np.arange(10000, dtype=np.float32), (1000, 1)), axis=1),)

    def heddle(self, x):
        return hd.topk(x, 10)

    def torch(self, x):
        return tuple(torch.topk(x, 10))

    def jax(self, x):
        return jax.lax.top_k(x, 10)

    def numpy(self, x):
        places = np.argpartition(x, -10, -1)[:, -10:]
        order = np.argsort(-np.take_along_axis(x, places, 1), 1)
        places = np.take_along_axis(places, order, 1)
        return np.take_along_axis(x, places, 1), places


class unique_counts(Snippet):
    plain = ("heddle", "torch", "jax")

    def inputs(self, rng):
        return (rng.integers(0, 10000, 1_000_000, dtype=np.int32),)

    def heddle(self, x):
        return hd.unique(x, return_counts=True)

    def torch(self, x):
        return torch.unique(x, return_counts=True)

    def jax(self, x):
        return jnp.unique(x, return_counts=True)

    def numpy(self, x):
        return np.unique(x, return_counts=True)


class histogram(Snippet):
    atol = 4  # a value at the border of two bins

    def inputs(self, rng):
        return (normal(rng, 1_000_000),)

    def heddle(self, x):
        return hd.histogram(x, 100, (-4.0, 4.0))[0]

    def torch(self, x):
        return torch.histc(x, 100, -4, 4)

    def jax(self, x):
        return jnp.histogram(x, 100, (-4.0, 4.0))[0]

    def numpy(self, x):
        return np.histogram(x, 100, (-4.0, 4.0))[0]


class scatter_add(Snippet):
    """Sums of rows by key."""

    atol = 1e-3

    def inputs(self, rng):
        return rng.integers(0, 1000, 100_000), normal(rng, 100_000, 16)

    def heddle(self, ids, x):
        return hd.zeros(1000, 16).index_add(0, ids, x)

    def torch(self, ids, x):
        return torch.zeros(1000, 16).index_add(0, ids, x)

    def jax(self, ids, x):
        return jnp.zeros((1000, 16)).at[ids].add(x)

    def numpy(self, ids, x):
        result = np.zeros((1000, 16), np.float32)
        np.add.at(result, ids, x)
        return result


class boolean_mask(Snippet):
    plain = ("heddle", "torch", "jax")

    def inputs(self, rng):
        return (normal(rng, 4_000_000),)

    def heddle(self, x):
        return x[x > 0.5]

    torch = jax = numpy = heddle


class searchsorted(Snippet):
    def inputs(self, rng):
        return np.sort(normal(rng, 10000)), normal(rng, 1_000_000)

    def heddle(self, edges, x):
        return hd.searchsorted(edges, x)

    def torch(self, edges, x):
        return torch.searchsorted(edges, x)

    def jax(self, edges, x):
        return jnp.searchsorted(edges, x)

    def numpy(self, edges, x):
        return np.searchsorted(edges, x)
