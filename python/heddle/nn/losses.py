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
    """The mean of (x - target)^2.

    >>> hd.nn.MSELoss()(hd.tensor([1.0, 2.0]), hd.tensor([0.0, 4.0])).item()
    2.5
    """

    _function = _core.mse_loss

    def __init__(self, reduction="mean"):
        super().__init__(reduction=reduction)


class L1Loss(_Loss):
    """The mean of |x - target|.

    >>> hd.nn.L1Loss()(hd.tensor([1.0, 2.0]), hd.tensor([0.0, 4.0])).item()
    1.5
    """

    _function = _core.l1_loss

    def __init__(self, reduction="mean"):
        super().__init__(reduction=reduction)


class SmoothL1Loss(_Loss):
    """A parabola up to a distance of beta, then straight on.

    >>> hd.nn.SmoothL1Loss()(hd.tensor([1.0, 2.0]), hd.tensor([0.5, 4.0])).item()
    0.8125
    """

    _function = _core.smooth_l1_loss

    def __init__(self, reduction="mean", beta=1.0):
        super().__init__(reduction=reduction, beta=beta)


class HuberLoss(_Loss):
    """SmoothL1Loss times delta.

    >>> hd.nn.HuberLoss(delta=2.0)(hd.tensor([1.0, 2.0]), hd.tensor([0.5, 4.0])).item()
    1.0625
    """

    _function = _core.huber_loss

    def __init__(self, reduction="mean", delta=1.0):
        super().__init__(reduction=reduction, delta=delta)


class CrossEntropyLoss(_Loss):
    """-log(softmax(x)) at the targets, which are classes or probabilities.

    >>> print(hd.nn.CrossEntropyLoss()(hd.tensor([[0.0, 0.0], [0.0, 200.0]]), hd.tensor([0, 1])))
    0.3465736
    """

    _function = _core.cross_entropy

    def __init__(self, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
        super().__init__(
            weight=weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
        )


class NLLLoss(_Loss):
    """-x at the targets, for logarithms of probabilities.

    >>> hd.nn.NLLLoss()(hd.tensor([[-1.0, -2.0]]), hd.tensor([1])).item()
    2.0
    """

    _function = _core.nll_loss

    def __init__(self, weight=None, ignore_index=-100, reduction="mean"):
        super().__init__(weight=weight, ignore_index=ignore_index, reduction=reduction)


class BCELoss(_Loss):
    """-(t log(x) + (1 - t) log(1 - x)) of probabilities.

    >>> print(hd.nn.BCELoss()(hd.tensor([0.5, 1.0]), hd.tensor([1.0, 1.0])))
    0.3465736
    """

    _function = _core.binary_cross_entropy

    def __init__(self, weight=None, reduction="mean"):
        super().__init__(weight=weight, reduction=reduction)


class BCEWithLogitsLoss(_Loss):
    """BCELoss of sigmoid(x), exact for large x.

    >>> print(hd.nn.BCEWithLogitsLoss()(hd.tensor([0.0, -200.0]), hd.tensor([1.0, 1.0])))
    100.34657
    """

    _function = _core.binary_cross_entropy_with_logits

    def __init__(self, weight=None, reduction="mean", pos_weight=None):
        super().__init__(weight=weight, reduction=reduction, pos_weight=pos_weight)


class KLDivLoss(_Loss):
    """target * (log(target) - x), where x are logarithms of probabilities.

    >>> x = hd.log(hd.tensor([0.5, 0.5]))
    >>> print(hd.nn.KLDivLoss(reduction="sum")(x, hd.tensor([0.0, 1.0])))
    0.6931472
    """

    _function = _core.kl_div

    def __init__(self, reduction="mean", log_target=False):
        super().__init__(reduction=reduction, log_target=log_target)
