"""The Mandelbrot set

How many rounds of z = z^2 + c a point stays near: a loop inside of the program, compiled once. Complex numbers are two
tensors.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import heddle as hd


@hd.jit
def rounds(re, im):
    def step(_, state):
        x, y, count = state
        x, y = x * x - y * y + re, 2 * x * y + im
        near = x * x + y * y < 16
        return hd.where(near, x, 4.0), hd.where(near, y, 0.0), count + near

    start = hd.zeros_like(re), hd.zeros_like(im), hd.zeros_like(re)
    return hd.fori_loop(0, 120, step, start)[2]


def main(path):
    re, im = hd.meshgrid(hd.linspace(-2.1, 0.7, 1120), hd.linspace(-1.0, 1.0, 800))
    figure = plt.figure(figsize=(7, 5))
    axes = figure.add_axes([0, 0, 1, 1])
    axes.imshow(hd.log1p(rounds(re, im)).numpy(), cmap="twilight_shifted", interpolation="bilinear", aspect="auto")
    axes.set_axis_off()
    figure.savefig(path, dpi=160)


main(sys.argv[1])
