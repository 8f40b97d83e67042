"""Graphs, tables, equations, and training in f16."""

import torch
import torch.nn.functional as F
from torch import nn

from .common import Layers, Trained, model


class GraphConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x, sources, to):
        degree = torch.ones(x.shape[0], dtype=x.dtype).index_add(0, to, torch.ones(len(to), dtype=x.dtype))
        root = degree.rsqrt()[:, None]
        y = self.linear(x) * root
        return y.index_add(0, to, y[sources]) * root


@model("gcn")
class GCN(Trained):
    def __init__(self, bench):
        super().__init__()
        inputs, hidden = (64, 64) if bench else (6, 8)
        self.first, self.second = GraphConv(inputs, hidden), GraphConv(hidden, 7)

    def forward(self, batch):
        y = F.relu(self.first(batch["x"], batch["from"], batch["to"]))
        return self.second(y, batch["from"], batch["to"])

    loss = Layers.loss


@model("recommender")
class Recommender(Trained):
    def __init__(self, bench):
        super().__init__()
        rows, width, count = (20000, 32, 8) if bench else (30, 6, 3)
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="mean") for _ in range(count))
        self.bottom = nn.Sequential(nn.Linear(5, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(width + (count + 1) ** 2, 2 * width), nn.ReLU(), nn.Linear(2 * width, 1))

    def forward(self, batch):
        dense = self.bottom(batch["numbers"])
        features = [dense] + [table(batch["bags"][:, i]) for i, table in enumerate(self.tables)]
        every = torch.stack(features, 1)
        products = (every @ every.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([dense, products], 1))[:, 0]

    def loss(self, batch):
        return F.binary_cross_entropy_with_logits(self(batch), batch["clicks"])


@model("heat")
class Heat(Trained):
    def __init__(self, bench):
        super().__init__()
        hidden = 64 if bench else 8
        self.layers = nn.Sequential(nn.Linear(2, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                    nn.Linear(hidden, 1))

    def value(self, x, t):
        return self.layers(torch.stack([x, t], 1))[:, 0]

    def forward(self, batch):
        return self.value(batch["x"], batch["t"])

    def loss(self, batch):
        x, t = batch["x"].detach().requires_grad_(), batch["t"].detach().requires_grad_()
        by_x, by_t = torch.autograd.grad(self.value(x, t).sum(), (x, t), create_graph=True)
        bend = torch.autograd.grad(by_x.sum(), x, create_graph=True)[0]
        start = self.value(batch["x"], torch.zeros_like(batch["t"]))
        return (by_t - 0.1 * bend).square().mean() + F.mse_loss(start, torch.sin(batch["x"]))


@model("f16_mlp")
class F16Mlp(Layers):
    """Weights in f32, products in f16 where that is the dtype."""

    def __init__(self, bench):
        inputs, hidden = (256, 512) if bench else (12, 24)
        super().__init__(nn.Linear(inputs, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Linear(hidden, hidden),
                         nn.LayerNorm(hidden), nn.GELU(), nn.Linear(hidden, 10))
        self.small = False

    def forward(self, batch):
        with torch.autocast(batch["x"].device.type, torch.float16, enabled=self.small):
            return super().forward(batch)

    def start(self):
        self.scaler = torch.amp.GradScaler(next(self.parameters()).device.type, init_scale=1024.0, enabled=self.small)
        return super().start()

    def step(self, batch):
        self.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(self(batch).float(), batch["targets"])
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return [loss.detach()]


@model("many_classes")
def many_classes(bench):
    hidden, count = (64, 20011) if bench else (32, 3001)
    return Layers(nn.Linear(12, hidden), nn.Tanh(), nn.Linear(hidden, count))
