"""Encoders of texts, with padding; encoder and decoder."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .common import Trained, from_heads, in_heads, model, pooled


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.heads = heads

    def forward(self, x, memory, mask=None, causal=False):
        q, k, v = (in_heads(y, self.heads) for y in (self.q(x), self.k(memory), self.v(memory)))
        return self.out(from_heads(F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)))


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class EncoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention, self.feed = Attention(width, heads), FeedForward(width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x, mask):
        y = self.norm1(x + self.attention(x, x, mask))
        return self.norm2(y + self.feed(y))


class Encoder(nn.Module):
    def __init__(self, vocabulary, longest, width, heads, layers):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))

    def forward(self, ids, mask):
        x = self.norm(self.words(ids) + self.positions(torch.arange(ids.shape[1])))
        for layer in self.layers:
            x = layer(x, mask)
        return x


def padding_mask(lengths, longest):
    return torch.arange(longest) < lengths[:, None]


@model("bert")
class Bert(Trained):
    def __init__(self, bench):
        super().__init__()
        vocabulary, longest, width, heads = (2000, 64, 128, 4) if bench else (19, 10, 16, 2)
        self.encoder = Encoder(vocabulary, longest, width, heads, 2)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, batch):
        mask = padding_mask(batch["lengths"], batch["ids"].shape[1])
        return self.head(self.encoder(batch["ids"], mask[:, None, None]))

    def loss(self, batch):
        mask = padding_mask(batch["lengths"], batch["ids"].shape[1])
        return F.cross_entropy(self(batch).transpose(1, 2), torch.where(mask, batch["targets"], -100))


class DecoderLayer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.own, self.cross, self.feed = Attention(width, heads), Attention(width, heads), FeedForward(width)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))

    def forward(self, x, memory, mask):
        y = self.norm1(x + self.own(x, x, causal=True))
        y = self.norm2(y + self.cross(y, memory, mask))
        return self.norm3(y + self.feed(y))


@model("translator")
class Translator(Trained):
    def __init__(self, bench):
        super().__init__()
        vocabulary, longest, width, heads = (1000, 48, 128, 4) if bench else (17, 9, 16, 2)
        self.encoder = Encoder(vocabulary, longest, width, heads, 1)
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(longest, width)
        self.layers = nn.ModuleList(DecoderLayer(width, heads) for _ in range(2))
        self.head = nn.Linear(width, vocabulary)

    def logits(self, source, lengths, target):
        mask = padding_mask(lengths, source.shape[1])[:, None, None]
        memory = self.encoder(source, mask)
        x = self.words(target) + self.positions(torch.arange(target.shape[1]))
        for layer in self.layers:
            x = layer(x, memory, mask)
        return self.head(x)

    def forward(self, batch):
        return self.logits(batch["source"], batch["lengths"], batch["target"])

    def loss(self, batch):
        logits = self.logits(batch["source"], batch["lengths"], batch["target"][:, :-1])
        return F.cross_entropy(logits.transpose(1, 2), batch["target"][:, 1:], label_smoothing=0.1)


@model("clip")
class Clip(Trained):
    def __init__(self, bench):
        super().__init__()
        vocabulary, longest, width, heads, c = (1000, 32, 128, 4, 32) if bench else (17, 8, 16, 2, 4)
        self.texts = Encoder(vocabulary, longest, width, heads, 1)
        self.images = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1), nn.ReLU(), nn.Conv2d(c, 2 * c, 3, 2, 1), nn.ReLU(),
                                    *pooled(), nn.Linear(2 * c, width))
        self.text_projection = nn.Linear(width, width)
        self.scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, batch):
        mask = padding_mask(batch["lengths"], batch["ids"].shape[1])
        words = self.texts(batch["ids"], mask[:, None, None])
        counts = mask.to(words.dtype)
        mean = (words * counts[:, :, None]).sum(1) / counts.sum(1, keepdim=True)
        a, b = self.images(batch["pixels"]), self.text_projection(mean)
        a, b = a / a.norm(dim=-1, keepdim=True), b / b.norm(dim=-1, keepdim=True)
        return a @ b.t() * self.scale.exp()

    def loss(self, batch):
        logits = self(batch)
        own = torch.arange(logits.shape[0])
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.t(), own)) * 0.5
