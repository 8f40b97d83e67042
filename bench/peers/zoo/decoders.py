"""Language models."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .common import Trained, from_heads, in_heads, model


def rotary(x, positions):
    half = x.shape[-1] // 2
    rates = torch.exp(torch.arange(half, dtype=torch.float32) * (-math.log(10000.0) / half))
    angles = positions.float()[:, None] * rates
    c, s = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, a * s + b * c], -1)


class GroupedAttention(nn.Module):
    def __init__(self, width, heads, groups):
        super().__init__()
        part = width // heads
        self.q, self.out = nn.Linear(width, width, False), nn.Linear(width, width, False)
        self.k, self.v = nn.Linear(width, part * groups, False), nn.Linear(width, part * groups, False)
        self.q_norm, self.k_norm = nn.RMSNorm(part, 1e-6), nn.RMSNorm(part, 1e-6)
        self.heads, self.groups = heads, groups

    def parts(self, x, positions):
        q = rotary(self.q_norm(in_heads(self.q(x), self.heads)), positions)
        k = rotary(self.k_norm(in_heads(self.k(x), self.groups)), positions)
        return q, k, in_heads(self.v(x), self.groups)

    def forward(self, x):
        q, k, v = self.parts(x, torch.arange(x.shape[1]))
        return self.out(from_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)))

    def next(self, x, position, keys, values):
        q, k, v = self.parts(x, position)
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        mask = (torch.arange(keys.shape[2]) <= position)[None, None, None]
        return self.out(from_heads(F.scaled_dot_product_attention(q, keys, values, mask, enable_gqa=True)))


class SwiGLU(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up = nn.Linear(width, hidden, False), nn.Linear(width, hidden, False)
        self.down = nn.Linear(hidden, width, False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    def __init__(self, width, hidden, count):
        super().__init__()
        self.router = nn.Linear(width, count, False)
        self.gate = nn.Parameter(torch.randn(count, width, hidden) * 0.05)
        self.up = nn.Parameter(torch.randn(count, width, hidden) * 0.05)
        self.down = nn.Parameter(torch.randn(count, hidden, width) * 0.05)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        best, which = self.router(tokens).softmax(-1).topk(2)
        share = best / best.sum(-1, keepdim=True)
        weights = (share[:, :, None] * F.one_hot(which, self.gate.shape[0]).to(share.dtype)).sum(1)
        hidden = F.silu(torch.einsum("td,edh->eth", tokens, self.gate)) * torch.einsum("td,edh->eth", tokens, self.up)
        result = torch.einsum("eth,ehd->etd", hidden, self.down)
        return (result * weights.t()[:, :, None]).sum(0).reshape(x.shape)


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, groups, experts):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(width, 1e-6), nn.RMSNorm(width, 1e-6)
        self.attention = GroupedAttention(width, heads, groups)
        if experts:
            self.experts = Experts(width, 2 * width, experts)
        else:
            self.feed = SwiGLU(width, 3 * width)

    def fed(self, x):
        return x + (self.experts if hasattr(self, "experts") else self.feed)(self.norm2(x))

    def forward(self, x):
        return self.fed(x + self.attention(self.norm1(x)))

    def next(self, x, position, keys, values):
        return self.fed(x + self.attention.next(self.norm1(x), position, keys, values))


class LlamaNet(nn.Module):
    def __init__(self, bench, experts):
        super().__init__()
        self.vocabulary, width = (2000, 128) if bench else (23, 16)
        self.words = nn.Embedding(self.vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, 4, 2, experts) for _ in range(2))
        self.norm = nn.RMSNorm(width, 1e-6)

    def head(self, x):
        return self.norm(x) @ self.words.weight.t()

    def logits(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)

    def language_loss(self, ids):
        return F.cross_entropy(self.logits(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


class LanguageModel(LlamaNet):
    start, step = Trained.start, Trained.step

    def forward(self, batch):
        return self.logits(batch["ids"])

    def loss(self, batch):
        return self.language_loss(batch["ids"])


@model("llama")
def llama(bench):
    return LanguageModel(bench, 0)


@model("moe")
def moe(bench):
    return LanguageModel(bench, 8 if bench else 4)


class Buffers(nn.Module):
    def __init__(self, count, shape):
        super().__init__()
        for i in range(count):
            self.register_buffer(str(i), torch.randn(shape))

    def __getitem__(self, i):
        return getattr(self, str(i))


@model("decode")
class Decoder(Trained):
    def __init__(self, bench):
        super().__init__()
        self.net = LlamaNet(bench, 0)
        shape = (4, 2, 256, 32) if bench else (2, 2, 12, 4)
        self.keys, self.values = Buffers(2, shape), Buffers(2, shape)

    def forward(self, batch):
        x = self.net.words(batch["next"])
        for i, block in enumerate(self.net.blocks):
            x = block.next(x, batch["position"], self.keys[i], self.values[i])
        return self.net.head(x)

    def loss(self, batch):
        return self.net.language_loss(batch["ids"])
