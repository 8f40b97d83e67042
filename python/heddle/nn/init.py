"""First values of parameters, as in torch.nn.init. Those that end in _ change a tensor and give it back."""

import math

from .. import _core


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Equally likely values of variance 2 gain^2 / (inputs + outputs).

    >>> hd.nn.init.xavier_uniform_(hd.zeros(3, 2)).shape
    (3, 2)
    """
    return tensor.assign(_core._xavier_uniform(tensor.shape, gain, tensor.dtype, generator))


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Normally distributed values of variance 2 gain^2 / (inputs + outputs).

    >>> hd.nn.init.xavier_normal_(hd.zeros(3, 2)).shape
    (3, 2)
    """
    return tensor.assign(_core._xavier_normal(tensor.shape, gain, tensor.dtype, generator))


def calculate_gain(nonlinearity, param=None):
    """The factor that keeps the size of values through a function.

    >>> hd.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"relu": math.sqrt(2), "tanh": 5 / 3, "selu": 3 / 4, "linear": 1, "sigmoid": 1}
    gains.update({f"conv{n}d": 1 for n in (1, 2, 3)})
    if nonlinearity not in gains:
        raise _core.ValueError(f"calculate_gain: there is no {nonlinearity!r}; there are leaky_relu, {', '.join(gains)}")
    return gains[nonlinearity]


def _kaiming(draw, tensor, a, mode, nonlinearity, generator):
    if mode not in ("fan_in", "fan_out"):
        raise _core.ValueError(f"kaiming: the mode is 'fan_in' or 'fan_out', not {mode!r}")
    value = draw(tensor.shape, a, tensor.dtype, generator)  # for fan_in and leaky_relu
    factor = calculate_gain(nonlinearity, a) / calculate_gain("leaky_relu", a)
    if mode == "fan_out":
        factor *= math.sqrt(tensor.shape[1] / tensor.shape[0])
    return tensor.assign(value if factor == 1 else value * factor)


def kaiming_uniform_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Equally likely values of variance 2 / ((1 + a^2) inputs): keeps the variance through leaky_relu(a).

    >>> hd.nn.init.kaiming_uniform_(hd.zeros(3, 2)).shape
    (3, 2)
    """
    return _kaiming(_core._kaiming_uniform, tensor, a, mode, nonlinearity, generator)


def kaiming_normal_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Normally distributed values of variance 2 / ((1 + a^2) inputs).

    >>> hd.nn.init.kaiming_normal_(hd.zeros(3, 2)).shape
    (3, 2)
    """
    return _kaiming(_core._kaiming_normal, tensor, a, mode, nonlinearity, generator)


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Values in [a, b), equally likely.

    >>> hd.nn.init.uniform_(hd.zeros(3, 2)).shape
    (3, 2)
    """
    return tensor.assign(_core.uniform(tensor.shape, a, b, tensor.dtype, generator))


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normally distributed values.

    >>> hd.nn.init.normal_(hd.zeros(3, 2)).shape
    (3, 2)
    """
    return tensor.assign(_core.normal(tensor.shape, mean, std, tensor.dtype, generator))


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normally distributed values between a and b.

    >>> hd.nn.init.trunc_normal_(hd.zeros(3, 2)).shape
    (3, 2)
    """
    return tensor.assign(_core.truncated_normal(tensor.shape, mean, std, a, b, tensor.dtype, generator))


def constant_(tensor, value):
    """One value everywhere.

    >>> hd.nn.init.constant_(hd.zeros(2), 7)
    tensor([7., 7.])
    """
    return tensor.fill_(value)


def zeros_(tensor):
    """Zeros.

    >>> hd.nn.init.zeros_(hd.ones(2))
    tensor([0., 0.])
    """
    return tensor.fill_(0)


def ones_(tensor):
    """Ones.

    >>> hd.nn.init.ones_(hd.zeros(2))
    tensor([1., 1.])
    """
    return tensor.fill_(1)
