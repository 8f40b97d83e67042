"""Drawn digits, and a network that reads them

Training data is drawn stroke by stroke, so nothing has to be downloaded. Above each digit is what the network reads, red
where it is wrong; to the right its loss.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import heddle as hd


def main(path):
    hd.manual_seed(0)
    images, labels = hd.data.digits(6000, seed=1)
    tests, truth = hd.data.digits(1000, seed=2, held_out=True)
    net = hd.nn.Sequential(hd.nn.Flatten(), hd.nn.Linear(784, 256), hd.nn.ReLU(), hd.nn.Linear(256, 10))
    opt = hd.optim.AdamW(net.parameters(), lr=2e-3)

    @hd.jit
    def step(x, t):
        loss = hd.cross_entropy(net(x), t)
        opt.step(hd.grad(loss, net.parameters()))
        return loss

    loader = hd.data.batches(images, labels, size=100, shuffle_seed=1)
    losses = [step(x, t).item() for _ in range(4) for x, t in loader]
    guesses = net(tests).argmax(-1)
    right = (guesses == truth).float().mean().item()

    figure = plt.figure(figsize=(10, 3.4), layout="constrained")
    left, chart = figure.subfigures(1, 2, width_ratios=[1.25, 1])
    for axes, image, guess, label in zip(left.subplots(3, 8).flat, tests.numpy(), guesses.tolist(), truth.tolist()):
        axes.imshow(image, cmap="gray_r")
        axes.set_title(guess, fontsize=9, color="#2a7a2a" if guess == label else "#c0392b", pad=2)
        axes.set_axis_off()
    axes = chart.subplots()
    axes.semilogy(losses, color="#d18b4a", linewidth=1)
    axes.set_title(f"{right:.1%} of 1000 held-out digits are right", fontsize=10)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160)


main(sys.argv[1])
