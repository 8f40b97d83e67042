"""Models of sequences that are no transformers."""

import torch
import torch.nn.functional as F
from torch import nn

from .common import Layers, Trained, from_heads, in_heads, model


def next_loss(logits, ids):
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class NextLetter(Trained):
    def loss(self, batch):
        return next_loss(self(batch), batch["ids"])


@model("lstm")
class CharLSTM(NextLetter):
    def __init__(self, bench):
        super().__init__()
        width = 128 if bench else 12
        self.letters, self.head = nn.Embedding(29, width), nn.Linear(width, 29)
        self.first, self.second = nn.LSTMCell(width, width), nn.LSTMCell(width, width)

    def forward(self, batch):
        first, second, outputs = None, None, []
        for now in self.letters(batch["ids"]).unbind(1):
            first = self.first(now, first)
            second = self.second(first[0], second)
            outputs.append(self.head(second[0]))
        return torch.stack(outputs, 1)


@model("gru")
class GRUClassifier(Trained):
    def __init__(self, bench):
        super().__init__()
        inputs, hidden = (64, 128) if bench else (6, 10)
        self.forwards, self.backwards = nn.GRUCell(inputs, hidden), nn.GRUCell(inputs, hidden)
        self.head = nn.Linear(2 * hidden, 5)

    def forward(self, batch):
        a = b = None
        for now in batch["x"].unbind(1):
            a = self.forwards(now, a)
        for now in batch["x"].flip(1).unbind(1):
            b = self.backwards(now, b)
        return self.head(torch.cat([a, b], 1))

    loss = Layers.loss


class LinearRecurrence(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.decay, self.input, self.gate, self.out = (nn.Linear(width, width) for _ in range(4))
        self.norm = nn.RMSNorm(width, 1e-6)

    def forward(self, x):
        y = self.norm(x)
        a = torch.exp(-0.5 * F.softplus(self.decay(y)))
        b = torch.sqrt(1 - a * a) * torch.sigmoid(self.input(y)) * y
        h, states = None, []
        for at, bt in zip(a.unbind(1), b.unbind(1)):
            h = bt if h is None else at * h + bt
            states.append(h)
        return x + self.out(torch.stack(states, 1) * F.gelu(self.gate(y)))


@model("griffin")
class Griffin(NextLetter):
    def __init__(self, bench):
        super().__init__()
        width = 128 if bench else 12
        self.letters, self.head = nn.Embedding(29, width), nn.Linear(width, 29)
        self.first, self.second = LinearRecurrence(width), LinearRecurrence(width)

    def forward(self, batch):
        return self.head(self.second(self.first(self.letters(batch["ids"]))))


class Retention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, False) for _ in range(4))
        self.norm, self.heads = nn.LayerNorm(width), heads

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (in_heads(part(y), self.heads) for part in (self.q, self.k, self.v))
        place = torch.arange(x.shape[1], dtype=torch.float32)
        distance = place[:, None] - place
        rate = torch.log(1 - torch.exp2(-5 - torch.arange(self.heads, dtype=torch.float32)))
        decay = torch.where(distance >= 0, torch.exp(distance * rate[:, None, None]), 0)
        return x + self.out(from_heads((q @ k.transpose(2, 3) * decay) @ v))


@model("retnet")
class RetNet(NextLetter):
    def __init__(self, bench):
        super().__init__()
        width = 128 if bench else 12
        self.letters, self.head = nn.Embedding(29, width), nn.Linear(width, 29)
        self.first, self.second = Retention(width, 4), Retention(width, 4)

    forward = Griffin.forward


@model("wavenet")
class WaveNet(Trained):
    def __init__(self, bench):
        super().__init__()
        c = 32 if bench else 4
        self.in_, self.out = nn.Conv1d(1, c, 1), nn.Conv1d(c, 16, 1)
        self.layers = nn.ModuleList(nn.Conv1d(c, 2 * c, 2, dilation=d) for d in (1, 2, 4))
        self.mixes = nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(3))

    def forward(self, batch):
        y = self.in_(batch["x"])
        skips = torch.zeros_like(y)
        for layer, mix in zip(self.layers, self.mixes):
            a, b = layer(F.pad(y, (layer.dilation[0], 0))).chunk(2, 1)
            mixed = mix(torch.tanh(a) * torch.sigmoid(b))
            skips, y = skips + mixed, y + mixed
        return self.out(F.relu(skips))

    loss = Layers.loss
