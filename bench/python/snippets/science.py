"""Distances, particles, grids, prices."""

from .libraries import hd, jax, jnp, np, special, torch
from .snippet import Snippet, normal, whole


class pairwise_distances(Snippet):
    def inputs(self, rng):
        return normal(rng, 512, 64), normal(rng, 512, 64)

    def heddle(self, x, y):
        return ((x[:, None] - y[None]) ** 2).sum(-1).sqrt()

    def torch(self, x, y):
        return torch.cdist(x, y)

    def jax(self, x, y):
        return jnp.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))

    def numpy(self, x, y):
        return np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1))


class cdist_argmin(Snippet):
    def inputs(self, rng):
        return whole(rng, 500, 4096, 32), whole(rng, 500, 256, 32)

    def heddle(self, x, c):
        return ((x * x).sum(1)[:, None] - 2 * (x @ c.T) + (c * c).sum(1)).argmin(1)

    def torch(self, x, c):
        return ((x * x).sum(1)[:, None] - 2 * (x @ c.T) + (c * c).sum(1)).argmin(1)

    def jax(self, x, c):
        return ((x * x).sum(1)[:, None] - 2 * (x @ c.T) + (c * c).sum(1)).argmin(1)

    def numpy(self, x, c):
        return ((x * x).sum(1)[:, None] - 2 * (x @ c.T) + (c * c).sum(1)).argmin(1)


class kmeans_step(Snippet):
    def inputs(self, rng):
        x = whole(rng, 500, 10000, 16)
        return x, x[:32].copy()

    def heddle(self, x, c):
        near = ((x[:, None] - c) ** 2).sum(-1).argmin(1)
        sums = hd.zeros(32, 16).index_add(0, near, x)
        return sums / hd.zeros(32).index_add(0, near, hd.ones(10000))[:, None]

    def torch(self, x, c):
        near = ((x[:, None] - c) ** 2).sum(-1).argmin(1)
        sums = torch.zeros(32, 16).index_add(0, near, x)
        return sums / torch.zeros(32).index_add(0, near, torch.ones(10000))[:, None]

    def jax(self, x, c):
        near = ((x[:, None] - c) ** 2).sum(-1).argmin(1)
        sums = jnp.zeros((32, 16)).at[near].add(x)
        return sums / jnp.zeros(32).at[near].add(1.0)[:, None]

    def numpy(self, x, c):
        near = ((x[:, None] - c) ** 2).sum(-1).argmin(1)
        sums = np.zeros((32, 16), np.float32)
        np.add.at(sums, near, x)
        return sums / np.bincount(near, minlength=32).astype(np.float32)[:, None]


class nbody(Snippet):
    """One leapfrog step of 1000 bodies."""

    rtol, atol = 1e-3, 1e-3

    def inputs(self, rng):
        return normal(rng, 1000, 3), normal(rng, 1000, 3), np.abs(normal(rng, 1000)) + np.float32(0.1)

    def heddle(self, x, v, m):
        d = x[None] - x[:, None]
        pull = m * ((d * d).sum(-1) + 0.01) ** -1.5
        v = v + 0.001 * (d * pull[:, :, None]).sum(1)
        return x + 0.001 * v, v

    def torch(self, x, v, m):
        d = x[None] - x[:, None]
        pull = m * ((d * d).sum(-1) + 0.01) ** -1.5
        v = v + 0.001 * (d * pull[:, :, None]).sum(1)
        return x + 0.001 * v, v

    def jax(self, x, v, m):
        d = x[None] - x[:, None]
        pull = m * ((d * d).sum(-1) + 0.01) ** -1.5
        v = v + 0.001 * (d * pull[:, :, None]).sum(1)
        return x + 0.001 * v, v

    def numpy(self, x, v, m):
        d = x[None] - x[:, None]
        pull = m * ((d * d).sum(-1) + np.float32(0.01)) ** np.float32(-1.5)
        v = v + np.float32(0.001) * (d * pull[:, :, None]).sum(1)
        return x + np.float32(0.001) * v, v


class game_of_life(Snippet):
    """Ten generations."""

    def inputs(self, rng):
        return (rng.integers(0, 2, (1024, 1024), dtype=np.uint8),)

    def heddle(self, x):
        def generation(_, x):
            near = sum(hd.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
            return ((near == 3) | ((x == 1) & (near == 2))).to(hd.uint8)

        return hd.fori_loop(0, 10, generation, x)

    def torch(self, x):
        for _ in range(10):
            near = sum(torch.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
            x = ((near == 3) | ((x == 1) & (near == 2))).to(torch.uint8)
        return x

    def jax(self, x):
        def generation(_, x):
            near = sum(jnp.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
            return ((near == 3) | ((x == 1) & (near == 2))).astype(jnp.uint8)

        return jax.lax.fori_loop(0, 10, generation, x)

    def numpy(self, x):
        for _ in range(10):
            near = sum(np.roll(x, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
            x = ((near == 3) | ((x == 1) & (near == 2))).astype(np.uint8)
        return x


class heat_stencil(Snippet):
    """Ten steps of five points; the border stays."""

    def inputs(self, rng):
        return (normal(rng, 1024, 1024),)

    def heddle(self, u):
        def step(_, u):
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u = u.clone()
            u[1:-1, 1:-1] += 0.2 * (around - 4 * u[1:-1, 1:-1])
            return u

        return hd.fori_loop(0, 10, step, u)

    def torch(self, u):
        for _ in range(10):
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u = u.clone()
            u[1:-1, 1:-1] += 0.2 * (around - 4 * u[1:-1, 1:-1])
        return u

    def jax(self, u):
        def step(_, u):
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            return u.at[1:-1, 1:-1].add(0.2 * (around - 4 * u[1:-1, 1:-1]))

        return jax.lax.fori_loop(0, 10, step, u)

    def numpy(self, u):
        u = u.copy()
        for _ in range(10):
            around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
            u[1:-1, 1:-1] += np.float32(0.2) * (around - 4 * u[1:-1, 1:-1])
        return u


class mandelbrot(Snippet):
    """How many of 50 rounds each of 512 x 512 points stays near."""

    def inputs(self, rng):
        x, y = np.meshgrid(np.linspace(-2, 0.5, 512), np.linspace(-1.25, 1.25, 512))
        return x.astype(np.float32), y.astype(np.float32)

    def same(self, result, expected):
        # At the edge of the set the last bit decides.
        return (result[0] == expected[0]).mean() > 0.995

    def heddle(self, x, y):
        def again(_, state):
            a, b, count = state
            a, b = hd.clamp(a * a - b * b + x, -1e6, 1e6), hd.clamp(2 * a * b + y, -1e6, 1e6)
            return a, b, count + (a * a + b * b < 4)

        return hd.fori_loop(0, 50, again, (hd.zeros_like(x), hd.zeros_like(x), hd.zeros(512, 512, dtype=hd.int32)))[2]

    def torch(self, x, y):
        a, b, count = torch.zeros_like(x), torch.zeros_like(x), torch.zeros(512, 512, dtype=torch.int32)
        for _ in range(50):
            a, b = torch.clamp(a * a - b * b + x, -1e6, 1e6), torch.clamp(2 * a * b + y, -1e6, 1e6)
            count = count + (a * a + b * b < 4)
        return count

    def jax(self, x, y):
        def again(_, state):
            a, b, count = state
            a, b = jnp.clip(a * a - b * b + x, -1e6, 1e6), jnp.clip(2 * a * b + y, -1e6, 1e6)
            return a, b, count + (a * a + b * b < 4)

        return jax.lax.fori_loop(0, 50, again, (jnp.zeros_like(x), jnp.zeros_like(x), jnp.zeros((512, 512), int)))[2]

    def numpy(self, x, y):
        a, b, count = np.zeros_like(x), np.zeros_like(x), np.zeros((512, 512), np.int32)
        for _ in range(50):
            a, b = np.clip(a * a - b * b + x, -1e6, 1e6), np.clip(2 * a * b + y, -1e6, 1e6)
            count += a * a + b * b < 4
        return count


class black_scholes(Snippet):
    """A million prices of call options."""

    rtol, atol = 1e-3, 1e-3

    def inputs(self, rng):
        draw = lambda low, high: rng.uniform(low, high, 1_000_000).astype(np.float32)  # noqa: E731
        return draw(50, 150), draw(50, 150), draw(0.1, 2), draw(0.1, 0.5)

    def heddle(self, s, k, t, sigma):
        normal_cdf = lambda z: 0.5 * (1 + hd.erf(z * 0.5**0.5))  # noqa: E731
        spread = sigma * hd.sqrt(t)
        d = (hd.log(s / k) + (0.02 + sigma**2 / 2) * t) / spread
        return s * normal_cdf(d) - k * hd.exp(-0.02 * t) * normal_cdf(d - spread)

    def torch(self, s, k, t, sigma):
        normal_cdf = lambda z: 0.5 * (1 + torch.erf(z * 0.5**0.5))  # noqa: E731
        spread = sigma * torch.sqrt(t)
        d = (torch.log(s / k) + (0.02 + sigma**2 / 2) * t) / spread
        return s * normal_cdf(d) - k * torch.exp(-0.02 * t) * normal_cdf(d - spread)

    def jax(self, s, k, t, sigma):
        normal_cdf = lambda z: 0.5 * (1 + jax.scipy.special.erf(z * 0.5**0.5))  # noqa: E731
        spread = sigma * jnp.sqrt(t)
        d = (jnp.log(s / k) + (0.02 + sigma**2 / 2) * t) / spread
        return s * normal_cdf(d) - k * jnp.exp(-0.02 * t) * normal_cdf(d - spread)

    def numpy(self, s, k, t, sigma):
        normal_cdf = lambda z: np.float32(0.5) * (1 + special.erf(z * np.float32(0.5**0.5)))  # noqa: E731
        spread = sigma * np.sqrt(t)
        d = (np.log(s / k) + (np.float32(0.02) + sigma**2 / 2) * t) / spread
        return s * normal_cdf(d) - k * np.exp(np.float32(-0.02) * t) * normal_cdf(d - spread)


class price_paths(Snippet):
    """An option on the mean of 252 days, from normal numbers that are there."""

    rtol = 1e-3

    def inputs(self, rng):
        return (normal(rng, 10000, 252),)

    def heddle(self, z):
        path = 100 * hd.exp(hd.cumsum(0.012 * z - 0.00007, 1))
        return hd.clamp(path.mean(1) - 100, 0).mean()

    def torch(self, z):
        path = 100 * torch.exp(torch.cumsum(0.012 * z - 0.00007, 1))
        return torch.clamp(path.mean(1) - 100, 0).mean()

    def jax(self, z):
        path = 100 * jnp.exp(jnp.cumsum(0.012 * z - 0.00007, 1))
        return jnp.clip(path.mean(1) - 100, 0).mean()

    def numpy(self, z):
        path = 100 * np.exp(np.cumsum(np.float32(0.012) * z - np.float32(0.00007), 1))
        return np.maximum(path.mean(1) - 100, 0).mean()


class drawdown(Snippet):
    """The largest fall from the highest price so far."""

    def inputs(self, rng):
        return (np.exp(np.cumsum(0.01 * normal(rng, 1000, 2520), 1)).astype(np.float32),)

    def heddle(self, p):
        top = p.cummax(1)
        return ((top - p) / top).max(1)

    def torch(self, p):
        top = p.cummax(1).values
        return ((top - p) / top).amax(1)

    def jax(self, p):
        top = jax.lax.cummax(p, 1)
        return ((top - p) / top).max(1)

    def numpy(self, p):
        top = np.maximum.accumulate(p, 1)
        return ((top - p) / top).max(1)
