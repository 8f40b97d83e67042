"""A double pendulum, a thousand times

Equations of motion come from the Lagrangian by automatic differentiation: no derivative is written by hand. `vmap` makes
a thousand pendulums of one, which begin almost the same and soon do not agree.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import heddle as hd


def lagrangian(q, v):
    """Kinetic less potential energy of two rods of length 1 with masses of 1 at their ends."""
    kinetic = v[0] ** 2 + 0.5 * v[1] ** 2 + v[0] * v[1] * hd.cos(q[0] - q[1])
    potential = -9.81 * (2 * hd.cos(q[0]) + hd.cos(q[1]))
    return kinetic - potential


def acceleration(q, v):
    """Of M a = dL/dq - (dM/dt) v, with the 2 x 2 matrix M = d2L/dv2."""
    mass = hd.hessian(lambda u: lagrangian(q, u), v)
    force = hd.grad(lagrangian)(q, v) - hd.jvp(lambda p: hd.grad(lagrangian, argnums=1)(p, v), [q], [v])[1]
    (a, b), (c, d) = (mass.unbind(0)[i].unbind(0) for i in range(2))
    return hd.stack([d * force[0] - b * force[1], a * force[1] - c * force[0]]) / (a * d - b * c)


@hd.jit
def swing(q, v):
    """Angles of all pendulums over time."""
    step, accelerate = 0.01, hd.vmap(acceleration)

    def move(state, _):
        q, v = state
        half = v + accelerate(q, v) * (step / 2)
        q = q + half * step
        v = half + accelerate(q, half) * (step / 2)
        return (q, v), q

    return hd.scan(move, (q, v), length=1000)[1]


def main(path):
    count = 1000
    q = hd.stack([hd.full((count,), 2.2), 2.4 + 1e-3 * hd.linspace(0, 1, count)], 1)
    angles = swing(q, hd.zeros(count, 2)).numpy()
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    time = [0.01 * i for i in range(len(angles))]
    for i in range(0, count, 40):
        axes.plot(time, angles[:, i, 1], color=plt.cm.viridis(i / count), linewidth=0.7)
    axes.set_xlabel("seconds")
    axes.set_ylabel("angle of the second rod")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160)


main(sys.argv[1])
