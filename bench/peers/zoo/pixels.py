"""An answer for every pixel."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .common import Layers, Trained, model


class DoubleConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))))


@model("unet")
class UNet(Trained):
    def __init__(self, bench):
        super().__init__()
        c = 24 if bench else 6
        self.down, self.bottom, self.up = DoubleConv(1, c), DoubleConv(c, 2 * c), DoubleConv(2 * c, c)
        self.grow, self.out = nn.ConvTranspose2d(2 * c, c, 2, 2), nn.Conv2d(c, 3, 1)

    def forward(self, batch):
        skip = self.down(batch["x"])
        low = self.bottom(F.max_pool2d(skip, 2))
        return self.out(self.up(torch.cat([skip, self.grow(low)], 1)))

    loss = Layers.loss


@model("unet_upsampled")
class UpsampledUNet(Trained):
    def __init__(self, bench):
        super().__init__()
        c = 24 if bench else 6
        self.down, self.bottom, self.up = DoubleConv(1, c), DoubleConv(c, 2 * c), DoubleConv(3 * c, c)
        self.out = nn.Conv2d(c, 3, 1)

    def forward(self, batch):
        skip = self.down(batch["x"])
        low = self.bottom(F.max_pool2d(skip, 2))
        return self.out(self.up(torch.cat([skip, F.interpolate(low, scale_factor=2)], 1)))

    loss = Layers.loss


class TimedBlock(nn.Module):
    def __init__(self, channels, times):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(4, channels), nn.GroupNorm(4, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(times, channels)

    def forward(self, x, t):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(y)))


class ImageAttention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(4, channels), heads
        self.qkv, self.out = nn.Conv2d(channels, 3 * channels, 1), nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = (p.reshape(n, self.heads, -1, h * w).transpose(2, 3) for p in self.qkv(self.norm(x)).chunk(3, 1))
        seen = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(seen.transpose(2, 3).reshape(n, c, h, w))


def time_embedding(t, width):
    rates = torch.exp(torch.arange(width // 2, dtype=torch.float32) * (-math.log(10000.0) / (width // 2)))
    angles = t.float()[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)


@model("diffusion")
class Diffusion(Trained):
    def __init__(self, bench):
        super().__init__()
        c = self.width = 32 if bench else 8
        self.in_, self.down = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, c, 3, 2, 1)
        self.out = nn.Conv2d(c, 3, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(c, 2 * c), nn.SiLU(), nn.Linear(2 * c, 2 * c))
        self.first, self.middle, self.last = (TimedBlock(c, 2 * c) for _ in range(3))
        self.attention, self.up = ImageAttention(c, 2), nn.ConvTranspose2d(c, c, 4, 2, 1)
        self.norm = nn.GroupNorm(4, c)

    def noise(self, x, t):
        embedded = self.time(time_embedding(t, self.width))
        high = self.first(self.in_(x), embedded)
        low = self.attention(self.middle(self.down(high), embedded))
        return self.out(F.silu(self.norm(self.last(self.up(low) + high, embedded))))

    def forward(self, batch):
        return self.noise(batch["x"], batch["t"])

    def loss(self, batch):
        angle = (batch["t"].float() * (math.pi / 2000))[:, None, None, None]
        return F.mse_loss(self.noise(angle.cos() * batch["x"] + angle.sin() * batch["noise"], batch["t"]), batch["noise"])
