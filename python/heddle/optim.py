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
__all__ += ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(path, model, optimizer, metadata=None):
    """A module, its optimiser and the default generator in one file: going on from it gives the same bits."""
    _core._optim._save_checkpoint(path, model._tensors(), optimizer, metadata)


def load_checkpoint(path, model, optimizer):
    """Gives them the values of the file; everything must fit, or nothing changes. Returns the metadata."""
    return _core._optim._load_checkpoint(path, model._tensors(), optimizer)
