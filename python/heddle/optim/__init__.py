"""Optimisers with PyTorch's settings and arithmetic, schedules, and limits for gradients.

A rate is a number or a schedule: `AdamW(net.parameters(), lr=warmup(100, cosine(1e-3, 2000)))`.
"""

from .. import _core
from . import lr_scheduler
from ._groups import param_groups, zero_grad

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
    "decay_matrices",
    "exponential_decay",
    "linear",
    "lr_scheduler",
    "multi_step",
    "step_decay",
    "warmup",
]

globals().update({name: getattr(_core._optim, name) for name in __all__ if name != "lr_scheduler"})
_core._optim.Optimizer.param_groups = property(param_groups, doc=param_groups.__doc__)
_core._optim.Optimizer.zero_grad = zero_grad
__all__ += ["clip_grad_norm_", "clip_grad_value_", "load_checkpoint", "save_checkpoint"]


def save_checkpoint(path, model, optimizer, metadata=None):
    """A module, its optimiser and the default generator in one file: going on from it gives the same bits.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "c.safetensors")
    >>> net = hd.nn.Linear(2, 2)
    >>> opt = hd.optim.AdamW(net.parameters())
    >>> hd.optim.save_checkpoint(path, net, opt, {"epoch": "3"})
    >>> hd.optim.load_checkpoint(path, net, opt)
    {'epoch': '3'}
    """
    _core._optim._save_checkpoint(path, model._tensors(), optimizer, metadata)


def load_checkpoint(path, model, optimizer):
    """Gives them the values of the file; everything must fit, or nothing changes. Returns the metadata.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "c.safetensors")
    >>> net = hd.nn.Linear(2, 2)
    >>> opt = hd.optim.AdamW(net.parameters())
    >>> hd.optim.save_checkpoint(path, net, opt, {"epoch": "3"})
    >>> hd.optim.load_checkpoint(path, net, opt)
    {'epoch': '3'}
    """
    return _core._optim._load_checkpoint(path, model._tensors(), optimizer)


def clip_grad_norm_(parameters, max_norm, norm_type=2.0):
    """Makes the gradients that backward() left smaller, so that the norm of all of them is at most max_norm. Gives the
    norm before.

    >>> w = hd.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> norm = hd.optim.clip_grad_norm_(w, 1.0)
    >>> print(norm, w.grad)
    5.0 [0.6 0.8]
    """
    gradients = _gradients_of(parameters)
    if not gradients:
        return _core.zeros(())
    clipped, norm = clip_grad_norm(gradients, max_norm, norm_type)
    for gradient, value in zip(gradients, clipped):
        gradient.assign(value)
    return norm


def clip_grad_value_(parameters, clip_value):
    """Brings the gradients that backward() left into [-clip_value, clip_value].

    >>> w = hd.tensor([3.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> hd.optim.clip_grad_value_([w], 1.0)
    >>> print(w.grad)
    [1.]
    """
    gradients = _gradients_of(parameters)
    for gradient, value in zip(gradients, clip_grad_value(gradients, clip_value) if gradients else []):
        gradient.assign(value)


def _gradients_of(parameters):
    parameters = [parameters] if isinstance(parameters, _core.Tensor) else list(parameters)
    return [p.grad for p in parameters if p.grad is not None]
