"""What a snippet is."""

import numpy as np


class Snippet:
    """Functions of the same arrays, one for each library: heddle, torch, jax, numpy.

    plain: libraries whose version is called as it is, where their compiler cannot take it (sizes that depend on data,
    a thousand steps of a Python loop).
    """

    plain = ()
    rtol, atol = 1e-4, 1e-5

    def inputs(self, rng):
        """NumPy arrays."""
        raise NotImplementedError

    def same(self, result, expected):
        """Whether two results, lists of NumPy arrays, say the same."""
        return len(result) == len(expected) and all(
            a.shape == b.shape and np.allclose(a.astype(np.float64), b.astype(np.float64), self.rtol, self.atol)
            for a, b in zip(result, expected)
        )


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def whole(rng, end, *shape):
    """Integers as floats: sums of their products are exact, and every library finds the same minimum."""
    return rng.integers(0, end, shape).astype(np.float32)
