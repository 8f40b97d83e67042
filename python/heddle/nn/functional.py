"""Operators of neural networks as functions, under PyTorch's names."""

import functools

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


def changing(function):
    """The function with PyTorch's `inplace`: then its first argument gets the result, and is the result.

    >>> x = hd.tensor([-1.0, 2.0])
    >>> hd.nn.functional.relu(x, inplace=True) is x, x.tolist()
    (True, [0.0, 2.0])
    """
    @functools.wraps(function)
    def run(*args, inplace=False, **kwargs):
        result = function(*args, **kwargs)
        return (args[0] if args else kwargs["input"]).assign(result) if inplace else result

    return run


for _name in "relu relu6 leaky_relu elu selu celu silu hardsigmoid hardswish hardtanh mish threshold dropout".split():
    globals()[_name] = changing(globals()[_name])


def embedding(input, weight):
    """Rows of a table, chosen by integers: the integers come first here, as in PyTorch.

    >>> hd.nn.functional.embedding(hd.tensor([1, 0]), hd.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    return _core.embedding(weight, input)
