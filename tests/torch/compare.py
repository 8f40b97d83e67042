#!/usr/bin/env python3
"""Runs torch_test and computes again with PyTorch what it wrote. Exit status 77 (skipped) without PyTorch."""

import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy
    import torch
    import torch.nn.functional as F
except ImportError:
    print("no PyTorch: skipped")
    sys.exit(77)

DTYPES = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64}


def read(path):
    """A safetensors file, without the library that is tested or any other."""
    data = Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin:8 + length + end]
        tensors[name] = torch.from_numpy(numpy.frombuffer(raw, DTYPES[entry["dtype"]]).reshape(entry["shape"]).copy())
    return tensors


def losses(given):
    t = {name[3:]: value for name, value in given.items() if name.startswith("in.")}
    log_p = F.log_softmax(t["logits"], -1)
    out = {"kl.batchmean": F.kl_div(log_p, t["p"].log(), reduction="batchmean", log_target=True)}
    for how in ("none", "mean", "sum"):
        out[f"mse.{how}"] = F.mse_loss(t["logits"], t["target"], reduction=how)
        out[f"l1.{how}"] = F.l1_loss(t["logits"], t["target"], reduction=how)
        out[f"smooth_l1.{how}"] = F.smooth_l1_loss(t["logits"], t["target"], beta=0.7, reduction=how)
        out[f"huber.{how}"] = F.huber_loss(t["logits"], t["target"], delta=0.7, reduction=how)
        out[f"ce.{how}"] = F.cross_entropy(t["logits"], t["classes"], reduction=how)
        out[f"ce_all.{how}"] = F.cross_entropy(t["logits"], t["some"], t["weight"], label_smoothing=0.1, reduction=how)
        out[f"ce_p.{how}"] = F.cross_entropy(t["logits"], t["p"], t["weight"], label_smoothing=0.2, reduction=how)
        out[f"ce_images.{how}"] = F.cross_entropy(t["images"], t["labels"], t["weight"], ignore_index=1, reduction=how)
        out[f"nll.{how}"] = F.nll_loss(log_p, t["some"], t["weight"], reduction=how)
        out[f"bce.{how}"] = F.binary_cross_entropy(t["logits"].sigmoid(), t["p"], reduction=how)
        out[f"bce_logits.{how}"] = F.binary_cross_entropy_with_logits(
            t["logits"], t["p"], t["weight"], pos_weight=t["weight"], reduction=how)
        out[f"kl.{how}"] = F.kl_div(log_p, t["p"], reduction=how)
    return out


def layers(given):
    attention = {"embed_dim": 12, "num_heads": 3, "batch_first": True}
    modules = {
        "linear": torch.nn.Linear(12, 5),
        "layer_norm": torch.nn.LayerNorm(12),
        "embedding": torch.nn.Embedding(9, 4),
        "attention": torch.nn.MultiheadAttention(**attention),
        "causal": torch.nn.MultiheadAttention(**attention),
        "net": torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.GELU(), torch.nn.Linear(8, 6), torch.nn.SiLU()),
    }
    out = {}
    for name, module in modules.items():
        prefix = f"layer.{name}."
        state = {n[len(prefix) + 6:]: v for n, v in given.items() if n.startswith(prefix + "state.")}
        module.load_state_dict(state)  # names and shapes must be PyTorch's
        x = given[prefix + "x"]
        if name in ("attention", "causal"):
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if name == "causal" else None
            y = module(x, x, x, attn_mask=mask, need_weights=False)[0]
        else:
            y = module(x)
        out[prefix + "y"] = y.detach()
    return out


def optimisers(given):
    def plain(make):
        return lambda p: (make([p]), None)

    def cosine(p):
        optimiser = torch.optim.SGD([p], lr=0.1)
        return optimiser, torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 10, 0.01)

    o = torch.optim
    makers = {
        "sgd": plain(lambda p: o.SGD(p, lr=0.1, weight_decay=0.05)),
        "momentum": plain(lambda p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.05)),
        "nesterov": plain(lambda p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True)),
        "adam": plain(lambda p: o.Adam(p, lr=0.1, weight_decay=0.05)),
        "adamw": plain(lambda p: o.AdamW(p, lr=0.1, weight_decay=0.05)),
        "amsgrad": plain(lambda p: o.AdamW(p, lr=0.1, amsgrad=True)),
        "rmsprop": plain(lambda p: o.RMSprop(p, lr=0.1, weight_decay=0.05)),
        "rmsprop_momentum": plain(lambda p: o.RMSprop(p, lr=0.1, alpha=0.9, momentum=0.8, centered=True)),
        "adagrad": plain(lambda p: o.Adagrad(p, lr=0.1)),
        "cosine": cosine,
    }
    out = {}
    for name, make in makers.items():
        p = torch.nn.Parameter(given[f"optim.{name}.begin"].clone())
        optimiser, schedule = make(p)
        values = []
        # Beyond its last step PyTorch's cosine rises again; ours stays.
        for gradient in given[f"optim.{name}.gradients"][:10 if schedule else None]:
            p.grad = gradient
            optimiser.step()
            if schedule:
                schedule.step()
            values.append(p.detach().clone())
        out[f"optim.{name}.values"] = torch.stack(values)
    return out


class AttentionNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = torch.nn.Embedding(11, 12), torch.nn.LayerNorm(12)
        self.attention = torch.nn.MultiheadAttention(12, 3, batch_first=True)
        self.out = torch.nn.Linear(12, 5)

    def forward(self, ids):
        x = self.table(ids)
        n = self.norm(x)
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.out((x + self.attention(n, n, n, attn_mask=mask, need_weights=False)[0]).mean(1))


def trainings(given):
    nets = {
        "perceptron": torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.Linear(32, 5)),
        "attention": AttentionNet(),
    }
    out = {}
    for name, net in nets.items():
        prefix = f"train.{name}."
        net.load_state_dict({n[len(prefix) + 6:]: v for n, v in given.items() if n.startswith(prefix + "state.")})
        optimiser = torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.1)
        losses = []
        for _ in range(50):
            loss = F.cross_entropy(net(given[prefix + "x"]), torch.tensor([0, 3, 1, 4, 2, 0]))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.detach())
        out[prefix + "losses"] = torch.stack(losses)
    return out


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/out.safetensors"
        subprocess.run([sys.argv[1], path], check=True)
        given = read(path)
    wanted = {**losses(given), **layers(given), **optimisers(given), **trainings(given)}
    inputs = [n for n in given if n.startswith("in.") or ".state." in n or n.endswith((".x", ".begin", ".gradients"))]
    failures = [f"{name}: nothing to compare it with" for name in given if name not in wanted and name not in inputs]
    for name, want in wanted.items():
        got = given[name][:len(want)] if name.startswith("optim.") else given[name]
        if got.shape != want.shape:
            failures.append(f"{name}: shape {tuple(got.shape)} instead of {tuple(want.shape)}")
        elif not torch.allclose(got, want, rtol=1e-4 if name.startswith("train.") else 2e-5, atol=2e-6):
            failures.append(f"{name}: off by {(got - want).abs().max().item():.3g}")
    print("\n".join(failures))
    print(f"torch {torch.__version__}: {len(wanted) - len(failures)} of {len(wanted)} agree")
    sys.exit(1 if failures else 0)


main()
