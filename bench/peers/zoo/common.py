"""What the files of models share."""

import torch
import torch.nn.functional as F
from torch import nn

MODELS = {}


def model(name):
    def add(kind):
        MODELS[name] = kind
        return kind

    return add


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, eps=1e-3, weight_decay=0.05, fused=True)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.002, betas=(0.5, 0.999), eps=1e-3, fused=True)


class Trained(nn.Module):
    """What one AdamW trains."""

    def start(self):
        self.optimizer = adamw(self.parameters())
        return self

    def step(self, batch):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        return [loss.detach()]


class Layers(nn.Sequential):
    """A classifier of layers in a row."""

    def start(self):
        self.optimizer = adamw(self.parameters())
        return self

    def forward(self, batch):
        return super().forward(batch["x"])

    def loss(self, batch):
        return F.cross_entropy(self(batch), batch["targets"])

    step = Trained.step


def pooled():
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def in_heads(x, heads):
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def from_heads(x):
    return x.transpose(1, 2).flatten(2)
