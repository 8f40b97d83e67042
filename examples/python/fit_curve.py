"""A network that fits a curve

Forward pass, gradients and the optimiser's update are one captured function. The state of optimiser and network changes
in place.
"""

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import heddle as hd


def main(path):
    hd.manual_seed(1)
    x = hd.linspace(-3, 3, 200)[:, None]
    t = hd.sin(2 * x) * hd.exp(-0.2 * x * x) + 0.08 * hd.randn(200, 1)
    net = hd.nn.Sequential(hd.nn.Linear(1, 64), hd.nn.Tanh(), hd.nn.Linear(64, 64), hd.nn.Tanh(), hd.nn.Linear(64, 1))
    opt = hd.optim.AdamW(net.parameters(), lr=hd.optim.cosine(1e-2, 800))

    @hd.jit
    def step(x, t):
        loss = hd.mse_loss(net(x), t)
        opt.step(hd.grad(loss, net.parameters()))
        return loss

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    axes.scatter(x.numpy(), t.numpy(), s=8, color="#999999", label="data")
    for number in range(801):
        loss = step(x, t)
        if number in (50, 200, 800):
            shade = {50: "#f2b58b", 200: "#d97d3b", 800: "#8c3a0c"}[number]
            axes.plot(x.numpy(), net(x).numpy(), color=shade, label=f"step {number}, loss {loss.item():.4f}")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160)


main(sys.argv[1])
