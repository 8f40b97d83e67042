"""Classifiers of images."""

import torch
import torch.nn.functional as F
from torch import nn

from .common import Layers, Trained, model, pooled


@model("vgg")
def vgg(bench):
    c, side = (32, 32) if bench else (8, 8)
    return Layers(
        nn.Conv2d(3, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(c, 2 * c, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(2 * c * side * side // 16, 64), nn.ReLU(), nn.Linear(64, 10))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


@model("resnet")
def resnet(bench):
    c = 32 if bench else 8
    return Layers(nn.Conv2d(3, c, 3, padding=1, bias=False), nn.BatchNorm2d(c), nn.ReLU(), Residual(c, c, 1),
                  Residual(c, 2 * c, 2), *pooled(), nn.Linear(2 * c, 10))


class Separable(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.depthwise = nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False)
        self.pointwise = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.first, self.second = nn.BatchNorm2d(inputs), nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu6(self.second(self.pointwise(F.relu6(self.first(self.depthwise(x))))))


@model("mobilenet")
def mobilenet(bench):
    c = 32 if bench else 8
    return Layers(nn.Conv2d(3, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(), Separable(c, 2 * c, 1),
                  Separable(2 * c, 4 * c, 2), *pooled(), nn.Linear(4 * c, 48), nn.SiLU(), nn.Linear(48, 10))


class Grouped(nn.Module):
    def __init__(self, channels, width, groups):
        super().__init__()
        self.reduce = nn.Conv2d(channels, width, 1, bias=False)
        self.grouped = nn.Conv2d(width, width, 3, 1, 1, groups=groups, bias=False)
        self.expand = nn.Conv2d(width, channels, 1, bias=False)
        self.bn1, self.bn2, self.bn3 = nn.BatchNorm2d(width), nn.BatchNorm2d(width), nn.BatchNorm2d(channels)

    def forward(self, x):
        y = F.relu(self.bn2(self.grouped(F.relu(self.bn1(self.reduce(x))))))
        return F.relu(x + self.bn3(self.expand(y)))


@model("resnext")
def resnext(bench):
    c, groups = (128, 16) if bench else (16, 4)
    return Layers(nn.Conv2d(3, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(), Grouped(c, c // 2, groups),
                  Grouped(c, c // 2, groups), *pooled(), nn.Linear(c, 10))


class ConvNeXtBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.wide, self.narrow = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + self.narrow(F.gelu(self.wide(y))).permute(0, 3, 1, 2)


@model("convnext")
def convnext(bench):
    c = 64 if bench else 16
    return Layers(nn.Conv2d(3, c, 2, 2), ConvNeXtBlock(c), ConvNeXtBlock(c), *pooled(), nn.Linear(c, 10))


class ViTBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


@model("vit")
class ViT(Trained):
    def __init__(self, bench):
        super().__init__()
        side, width, heads = (32, 128, 4) if bench else (12, 16, 2)
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, side * side // 16 + 1, width))
        self.blocks = nn.ModuleList(ViTBlock(width, heads) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, batch):
        y = self.patches(batch["x"]).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(y.shape[0], 1, -1), y], 1) + self.positions
        for block in self.blocks:
            y = block(y)
        return self.head(self.norm(y)[:, 0])

    loss = Layers.loss
