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
        "conv": torch.nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2),
        "up": torch.nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1),
        "batch_norm": torch.nn.BatchNorm2d(4).eval(),
        "group_norm": torch.nn.GroupNorm(2, 4),
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


def convolutions(given):
    functions = {
        "plain": lambda x, w: F.conv2d(x, w),
        "strided": lambda x, w: F.conv2d(x, w, stride=(2, 3), padding=(1, 0)),
        "seven": lambda x, w: F.conv2d(x, w, stride=2, padding=3),
        "dilated": lambda x, w: F.conv2d(x, w, stride=(1, 2), padding=2, dilation=(2, 3), groups=2),
        "depthwise": lambda x, w: F.conv2d(x, w, padding="same", groups=6),
        "one": lambda x, w: F.conv1d(x, w, padding="same"),
        "three": lambda x, w: F.conv3d(x, w, stride=(1, 2, 1), padding=1),
        "transposed": lambda x, w: F.conv_transpose2d(x, w, stride=(2, 3), padding=(1, 0), output_padding=(1, 2)),
        "transposed_groups": lambda x, w: F.conv_transpose1d(x, w, stride=2, padding=1, groups=2, dilation=2),
        "max_pool": lambda x, w: F.max_pool2d(x, 3, stride=2, padding=1, ceil_mode=True) * w,
        "avg_pool": lambda x, w: F.avg_pool2d(x, (2, 3), padding=1, ceil_mode=True) * w,
        "avg_pool_inside": lambda x, w: F.avg_pool2d(x, (2, 3), stride=2, padding=1, count_include_pad=False) * w,
        "adaptive": lambda x, w: F.adaptive_avg_pool2d(x, (4, 5)) * w,
        "adaptive_max": lambda x, w: F.adaptive_max_pool2d(x, (4, 5)) * w,
    }
    out = {}
    for name, function in functions.items():
        x, w, g = (given[f"in.conv.{name}.{part}"] for part in "xwg")
        x.requires_grad_()
        w.requires_grad_()
        y = function(x, w)
        dx, dw = torch.autograd.grad(y, (x, w), g)
        out.update({f"conv.{name}.y": y.detach(), f"conv.{name}.dx": dx, f"conv.{name}.dw": dw})
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


class LastLogits(torch.nn.Module):
    """GPT-2 from its tensors alone."""

    def __init__(self, state, heads):
        super().__init__()
        self.names, self.heads = list(state), heads
        for name, value in state.items():
            self.register_parameter(name.replace(".", "/"), torch.nn.Parameter(value.clone()))

    def load_state_dict(self, state):
        pass

    def forward(self, ids):
        p = {name: getattr(self, name.replace(".", "/")) for name in self.names}

        def norm(x, name):
            return F.layer_norm(x, x.shape[-1:], p[name + ".weight"], p[name + ".bias"])

        def linear(x, name):
            return x @ p[name + ".weight"] + p[name + ".bias"]

        time = ids.shape[1]
        x = p["wte.weight"][ids] + p["wpe.weight"][:time]
        for i in range(2):
            parts = linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn").chunk(3, -1)
            q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in parts)
            scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
            scores = scores.masked_fill(torch.ones(time, time, dtype=torch.bool).triu(1), -float("inf"))
            mixed = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
            x = x + linear(mixed, f"h.{i}.attn.c_proj")
            h = linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
            x = x + linear(F.gelu(h, approximate="tanh"), f"h.{i}.mlp.c_proj")
        return (norm(x, "ln_f") @ p["wte.weight"].T)[:, -1]


def state_of(given, prefix):
    return {n[len(prefix) + 6:]: v for n, v in given.items() if n.startswith(prefix + "state.")}


def trainings(given):
    n = torch.nn
    images = n.Sequential(n.Conv2d(2, 4, 3, padding=1), n.BatchNorm2d(4), n.ReLU(), n.MaxPool2d(3, 2, 1),
                          n.Conv2d(4, 6, 3, stride=2, groups=2, bias=False), n.BatchNorm2d(6), n.ReLU(),
                          n.AdaptiveAvgPool2d(1), n.Flatten(), n.Linear(6, 5))
    nets = {
        "images": images,
        "gpt2": LastLogits(state_of(given, "train.gpt2."), 3),
        "perceptron": torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.ReLU(), torch.nn.Linear(32, 5)),
        "attention": AttentionNet(),
    }
    out = {}
    for name, net in nets.items():
        prefix = f"train.{name}."
        net.load_state_dict(state_of(given, prefix))
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


def tolerance(name):
    """Relative and absolute: rounding grows with sums of many products, and with every step of a training."""
    if name.startswith("train.images."):  # gradients that are nothing but rounding (a bias before BatchNorm) count in full
        return 5e-3, 1e-3
    if name.startswith("train."):
        return 1e-4, 2e-6
    return (2e-5, 5e-5) if name.startswith("conv.") else (2e-5, 2e-6)


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/out.safetensors"
        subprocess.run([sys.argv[1], path], check=True)
        given = read(path)
    wanted = {**losses(given), **layers(given), **convolutions(given), **optimisers(given), **trainings(given)}
    inputs = [n for n in given if n.startswith("in.") or ".state." in n or n.endswith((".x", ".begin", ".gradients"))]
    failures = [f"{name}: nothing to compare it with" for name in given if name not in wanted and name not in inputs]
    for name, want in wanted.items():
        got = given[name][:len(want)] if name.startswith("optim.") else given[name]
        if got.shape != want.shape:
            failures.append(f"{name}: shape {tuple(got.shape)} instead of {tuple(want.shape)}")
        elif not torch.allclose(got, want, *tolerance(name)):
            failures.append(f"{name}: off by {(got - want).abs().max().item():.3g}")
    print("\n".join(failures))
    print(f"torch {torch.__version__}: {len(wanted) - len(failures)} of {len(wanted)} agree")
    sys.exit(1 if failures else 0)


main()
