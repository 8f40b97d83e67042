"""Losses as modules."""

from .. import _core
from .module import Module

__all__ = [
    "MSELoss",
    "L1Loss",
    "SmoothL1Loss",
    "HuberLoss",
    "CrossEntropyLoss",
    "NLLLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "KLDivLoss",
]


class _Loss(Module):
    _function = None

    def __init__(self, **settings):
        super().__init__()
        for name in ("weight", "pos_weight"):
            if settings.get(name) is not None:
                self.register_buffer(name, _core.as_tensor(settings[name]), persistent=False)
        self._settings = settings

    def forward(self, x, target):
        return type(self)._function(x, target, **self._settings)


class MSELoss(_Loss):
    _function = _core.mse_loss

    def __init__(self, reduction="mean"):
        super().__init__(reduction=reduction)


class L1Loss(_Loss):
    _function = _core.l1_loss

    def __init__(self, reduction="mean"):
        super().__init__(reduction=reduction)


class SmoothL1Loss(_Loss):
    _function = _core.smooth_l1_loss

    def __init__(self, reduction="mean", beta=1.0):
        super().__init__(reduction=reduction, beta=beta)


class HuberLoss(_Loss):
    _function = _core.huber_loss

    def __init__(self, reduction="mean", delta=1.0):
        super().__init__(reduction=reduction, delta=delta)


class CrossEntropyLoss(_Loss):
    _function = _core.cross_entropy

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        super().__init__(
            weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
        )


class NLLLoss(_Loss):
    _function = _core.nll_loss

    def __init__(self, weight=None, ignore_index=-100, reduction="mean"):
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)


class BCELoss(_Loss):
    _function = _core.binary_cross_entropy

    def __init__(self, weight=None, reduction="mean"):
        super().__init__(weight=weight, reduction=reduction)


class BCEWithLogitsLoss(_Loss):
    _function = _core.binary_cross_entropy_with_logits

    def __init__(self, weight=None, reduction="mean", pos_weight=None):
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight)


class KLDivLoss(_Loss):
    _function = _core.kl_div

    def __init__(self, reduction="mean", log_target=False):
        super().__init__(reduction=reduction, log_target=log_target)
