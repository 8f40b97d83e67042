"""Heat that spreads

A plate with hot spots and a cold edge. Each step replaces an element by the mean of its neighbours: padding and slices
are index arithmetic, so one step is one kernel, and the loop over steps is in the program too.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import heddle as hd


@hd.jit
def spread(plate, steps):
    def step(_, u):
        p = hd.pad(u, [(1, 1), (1, 1)])
        return u + 0.2 * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * u)

    return hd.fori_loop(0, steps, step, plate)


def main(path):
    hd.manual_seed(4)
    x, y = hd.meshgrid(hd.linspace(0, 1, 256), hd.linspace(0, 1, 256))
    plate = hd.zeros(256, 256)
    for cx, cy in hd.rand(7, 2).tolist():
        plate = hd.where((x - cx) ** 2 + (y - cy) ** 2 < 0.006, 1.0, plate)
    figure, columns = plt.subplots(1, 4, figsize=(10, 2.7), layout="constrained")
    for axes, steps in zip(columns, (0, 100, 400, 1600)):
        axes.imshow(spread(plate, steps).numpy(), cmap="inferno", vmin=0, vmax=1)
        axes.set_title(f"{steps} steps", fontsize=10)
        axes.set_axis_off()
    figure.savefig(path, dpi=160)


main(sys.argv[1])
