"""Operators of neural networks as functions, under PyTorch's names."""

from .. import _core

__all__ = [
    *("relu relu6 leaky_relu elu selu celu gelu silu sigmoid logsigmoid hardsigmoid hardswish hardtanh softplus").split(),
    *("softsign mish glu tanh threshold softmax softmin log_softmax dropout embedding one_hot linear pad unfold").split(),
    *(f"{name}{n}d" for n in (1, 2, 3) for name in ("conv", "conv_transpose", "max_pool", "avg_pool")),
    *(f"adaptive_{name}_pool{n}d" for n in (1, 2, 3) for name in ("avg", "max")),
    *("layer_norm rms_norm group_norm batch_norm scaled_dot_product_attention mse_loss l1_loss rss_loss").split(),
    *("smooth_l1_loss huber_loss cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits").split(),
    "kl_div",
]

globals().update({name: getattr(_core, name) for name in __all__})
