"""Optimisers with PyTorch's settings and arithmetic, schedules, and limits for gradients.

A rate is a number or a schedule: `AdamW(net.parameters(), lr=warmup(100, cosine(1e-3, 2000)))`.
"""

from . import _core

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Lion",
    "Optimizer",
    "RMSprop",
    "Schedule",
    "chain",
    "clip_grad_norm",
    "clip_grad_value",
    "constant",
    "cosine",
    "exponential_decay",
    "linear",
    "multi_step",
    "step_decay",
    "warmup",
]

globals().update({name: getattr(_core._optim, name) for name in __all__})
