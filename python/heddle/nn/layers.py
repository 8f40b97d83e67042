"""Layers. Names of parameters and first values are PyTorch's."""

from .. import _core
from . import functional
from .module import Module, Parameter

__all__ = ["Linear", "Embedding", "LayerNorm", "RMSNorm", "GroupNorm", "Dropout", "Identity", "Flatten", "Unflatten"]
__all__ += ["MultiheadAttention"]


def _tuple(value, count):
    return (value,) * count if isinstance(value, int) else tuple(value)


class _WithState(Module):
    def _take(self, state):
        """Parameters from what the library makes; those that are not there are None."""
        for name in ("weight", "bias"):
            self.register_parameter(name, Parameter(state[name]) if name in state else None)


class Linear(_WithState):
    """x W^T + b over the last axis.

    >>> hd.nn.Linear(3, 2)(hd.ones(5, 3)).shape
    (5, 2)
    """

    def __init__(self, in_features, out_features, bias=True, dtype=None, generator=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._take(_core._linear_state(in_features, out_features, bias, dtype, generator))

    def forward(self, x):
        return _core.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(_WithState):
    """Rows of a table, chosen by integers.

    >>> hd.nn.Embedding(10, 4)(hd.tensor([[1, 2], [3, 4]])).shape
    (2, 2, 4)
    """

    def __init__(self, num_embeddings, embedding_dim, dtype=None, generator=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self._take(_core._embedding_state(num_embeddings, embedding_dim, dtype, generator))

    def forward(self, ids):
        return _core.embedding(self.weight, ids)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes, then times weight, plus bias.

    >>> print(hd.nn.LayerNorm(2)(hd.tensor([1.0, 3.0])))
    [-0.999995  0.999995]
    """

    def __init__(self, normalized_shape, eps=1e-5, elementwise_affine=True, bias=True, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps = _tuple(normalized_shape, 1), eps
        affine = elementwise_affine
        self.weight = Parameter(_core.ones(self.normalized_shape, dtype=dtype)) if affine else None
        self.bias = Parameter(_core.zeros(self.normalized_shape, dtype=dtype)) if affine and bias else None

    def forward(self, x):
        return _core.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """Mean square 1 over the last axes, then times weight.

    >>> print(hd.nn.RMSNorm(2)(hd.tensor([3.0, 4.0])))
    [0.8485281 1.1313708]
    """

    def __init__(self, normalized_shape, eps=1e-6, elementwise_affine=True, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps = _tuple(normalized_shape, 1), eps
        self.weight = Parameter(_core.ones(self.normalized_shape, dtype=dtype)) if elementwise_affine else None

    def forward(self, x):
        return _core.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Mean 0 and variance 1 over each of several parts of the channels.

    >>> print(hd.nn.GroupNorm(2, 4)(hd.tensor([[1.0, 3.0, 10.0, 12.0]])))
    [[-0.999995  0.999995 -0.999995  0.999995]]
    """

    def __init__(self, num_groups, num_channels, eps=1e-5, affine=True, dtype=None):
        super().__init__()
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter(_core.ones(num_channels, dtype=dtype)) if affine else None
        self.bias = Parameter(_core.zeros(num_channels, dtype=dtype)) if affine else None

    def forward(self, x):
        return _core.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self):
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}"


class _BatchNorm(Module):
    _ranks = ()

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True, dtype=None):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = Parameter(_core.ones(num_features, dtype=dtype)) if affine else None
        self.bias = Parameter(_core.zeros(num_features, dtype=dtype)) if affine else None
        self.register_buffer("running_mean", _core.zeros(num_features, dtype=dtype).realize())
        self.register_buffer("running_var", _core.ones(num_features, dtype=dtype).realize())
        self.register_buffer("num_batches_tracked", _core.zeros((), dtype=_core.int64).realize())

    def forward(self, x):
        if x.ndim not in self._ranks or x.shape[1] != self.num_features:
            ranks = " or ".join(str(rank) for rank in self._ranks)
            raise _core.ShapeError(
                f"{type(self).__name__}({self.num_features}): an input of shape {list(x.shape)}; it has {ranks} axes, "
                f"and {self.num_features} channels (axis 1)"
            )
        mean, var = self.running_mean, self.running_var
        if not self.training:
            return _core.batch_norm(x, mean, var, self.weight, self.bias, self.eps)
        return _core._batch_norm_training(
            x, mean, var, self.num_batches_tracked, self.weight, self.bias, self.eps, self.momentum
        )

    def extra_repr(self):
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}"


class _Conv(_WithState):
    _axes = 0

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        dilation=1,
        groups=1,
        bias=True,
        dtype=None,
        generator=None,
    ):
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = _tuple(kernel_size, self._axes)
        self.stride, self.dilation = _tuple(stride, self._axes), _tuple(dilation, self._axes)
        self.padding = padding if isinstance(padding, str) else _tuple(padding, self._axes)
        self._take(
            _core._conv_state(
                self._axes, in_channels, out_channels, self.kernel_size, groups, bias, False, dtype, generator
            )
        )

    def forward(self, x):
        conv = getattr(_core, f"conv{self._axes}d")
        return conv(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self):
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding!r}, dilation={self.dilation}, groups={self.groups}, bias={self.bias is not None}"
        )


class _ConvTranspose(_WithState):
    _axes = 0

    def __init__(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride=1,
        padding=0,
        output_padding=0,
        groups=1,
        bias=True,
        dilation=1,
        dtype=None,
        generator=None,
    ):
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = _tuple(kernel_size, self._axes)
        self.stride, self.dilation = _tuple(stride, self._axes), _tuple(dilation, self._axes)
        self.padding, self.output_padding = _tuple(padding, self._axes), _tuple(output_padding, self._axes)
        self._take(
            _core._conv_state(
                self._axes, in_channels, out_channels, self.kernel_size, groups, bias, True, dtype, generator
            )
        )

    def forward(self, x):
        conv = getattr(_core, f"conv_transpose{self._axes}d")
        settings = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        return conv(x, self.weight, self.bias, *settings)

    def extra_repr(self):
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, groups={self.groups}, bias={self.bias is not None}"
        )


class _Pool(Module):
    """A window's maximum or mean: settings are those of the function."""

    _function = None

    def __init__(self, kernel_size, stride=None, padding=0, **settings):
        super().__init__()
        self.kernel_size, self.stride, self.padding, self.settings = kernel_size, stride, padding, settings

    def forward(self, x):
        return type(self)._function(x, self.kernel_size, self.stride, self.padding, **self.settings)

    def extra_repr(self):
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AdaptivePool(Module):
    _function = None

    def __init__(self, output_size):
        super().__init__()
        self.output_size = output_size

    def forward(self, x):
        return type(self)._function(x, self.output_size)

    def extra_repr(self):
        return f"output_size={self.output_size}"


def _add(name, base, about, example, **members):
    """Makes a class of the module. The example is an expression, and what it prints."""
    code, shown = example
    text = f"{about}\n\n    >>> {code}\n    {shown}\n    "
    globals()[name] = type(name, (base,), {"__module__": __name__, "__doc__": text, **members})
    __all__.append(name)


for _n in (1, 2, 3):
    _axes = ("one axis", "two axes", "three axes")[_n - 1]
    _ones, _sizes = ", ".join(["8"] * _n), lambda size: ", ".join([str(size)] * _n)
    _add(
        f"Conv{_n}d",
        _Conv,
        f"A convolution over {_axes}: x [batch, in_channels, sizes]. padding: numbers, 'same' or 'valid'.",
        (f"hd.nn.Conv{_n}d(3, 4, 3, padding=1)(hd.ones(2, 3, {_ones})).shape", f"(2, 4, {_sizes(8)})"),
        _axes=_n,
    )
    _add(
        f"ConvTranspose{_n}d",
        _ConvTranspose,
        f"A transposed convolution over {_axes}: with a stride it makes images larger.",
        (f"hd.nn.ConvTranspose{_n}d(3, 4, 2, stride=2)(hd.ones(2, 3, {_ones})).shape", f"(2, 4, {_sizes(16)})"),
        _axes=_n,
    )
    _add(
        f"BatchNorm{_n}d",
        _BatchNorm,
        "Each channel with mean 0 and variance 1 over the batch, then times weight, plus bias; after eval() with\n"
        "    the running statistics.",
        (f"hd.nn.BatchNorm{_n}d(3)(hd.rand(2, 3, {_ones})).shape", f"(2, 3, {_sizes(8)})"),
        _ranks=(2, 3) if _n == 1 else (_n + 2,),
    )
    for _kind, _word in (("Max", "largest element"), ("Avg", "mean")):
        _add(
            f"{_kind}Pool{_n}d",
            _Pool,
            f"The {_word} of each window over {_axes}.",
            (f"hd.nn.{_kind}Pool{_n}d(2)(hd.ones(2, 3, {_ones})).shape", f"(2, 3, {_sizes(4)})"),
            _function=getattr(_core, f"{_kind.lower()}_pool{_n}d"),
        )
        _add(
            f"Adaptive{_kind}Pool{_n}d",
            _AdaptivePool,
            f"The {_word} of each of output_size windows that together cover {_axes}.",
            (f"hd.nn.Adaptive{_kind}Pool{_n}d(2)(hd.ones(2, 3, {_ones})).shape", f"(2, 3, {_sizes(2)})"),
            _function=getattr(_core, f"adaptive_{_kind.lower()}_pool{_n}d"),
        )


class Dropout(Module):
    """Zero with probability p while training, else x / (1 - p). Nothing happens after eval().

    >>> print(hd.nn.Dropout(0.5).eval()(hd.ones(3)))
    [1. 1. 1.]
    """

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise _core.ValueError(f"Dropout: {p} is no probability")
        self.p, self.inplace = p, inplace

    def forward(self, x):
        return functional.dropout(x, self.p, self.training, inplace=self.inplace)

    def extra_repr(self):
        return f"p={self.p}"


class Identity(Module):
    """Gives what it gets.

    >>> print(hd.nn.Identity()(hd.ones(2)))
    [1. 1.]
    """

    def forward(self, x):
        return x


class Flatten(Module):
    """The axes from start_dim to end_dim as one.

    >>> hd.nn.Flatten()(hd.ones(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        return _core.flatten(x, self.start_dim, self.end_dim)


class Unflatten(Module):
    """One axis as several.

    >>> hd.nn.Unflatten(1, (3, 4))(hd.ones(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, x):
        return _core.unflatten(x, self.dim, self.unflattened_size)


class MultiheadAttention(Module):
    """Self-attention over the last but one axis of x [..., time, width], in several heads.

    >>> hd.nn.MultiheadAttention(8, 2, is_causal=True)(hd.ones(1, 5, 8)).shape
    (1, 5, 8)
    """

    def __init__(self, embed_dim, num_heads, is_causal=False, dtype=None, generator=None):
        super().__init__()
        self.embed_dim, self.num_heads, self.is_causal = embed_dim, num_heads, is_causal
        state = _core._attention_state(embed_dim, num_heads, dtype, generator)
        self.in_proj_weight = Parameter(state["in_proj_weight"])
        self.in_proj_bias = Parameter(state["in_proj_bias"])
        self.out_proj = Linear(embed_dim, embed_dim, dtype=dtype)
        self.out_proj.weight = Parameter(state["out_proj.weight"])
        self.out_proj.bias = Parameter(state["out_proj.bias"])

    def forward(self, x, attn_mask=None):
        width = self.embed_dim // self.num_heads
        parts = _core.linear(x, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.num_heads, width)).swapaxes(-3, -2) for part in parts)
        y = _core.scaled_dot_product_attention(q, k, v, attn_mask, self.is_causal)
        return self.out_proj(y.swapaxes(-3, -2).flatten(-2))

    def extra_repr(self):
        return f"{self.embed_dim}, {self.num_heads}, is_causal={self.is_causal}"


class _Activation(Module):
    """An operator as a layer: settings are those of the function."""

    _function = None

    def __init__(self, *args, **settings):
        super().__init__()
        if args and isinstance(args[-1], bool):  # nn.ReLU(True)
            args, settings = args[:-1], {**settings, "inplace": args[-1]}
        self.args, self.settings = args, settings

    def forward(self, x):
        return type(self)._function(x, *self.args, **self.settings)

    def extra_repr(self):
        words = [repr(value) for value in self.args] + [f"{name}={value!r}" for name, value in self.settings.items()]
        return ", ".join(words)


for _name, _function, _about, _shown in (
    ("ReLU", "relu", "The larger of x and 0.", "[0. 2.]"),
    ("ReLU6", "relu6", "x between 0 and 6.", "[0. 2.]"),
    ("LeakyReLU", "leaky_relu", "x, and 0.01 x below zero.", "[-0.01  2.  ]"),
    ("ELU", "elu", "x, and exp(x) - 1 below zero.", "[-0.63212055  2.        ]"),
    ("SELU", "selu", "ELU with fixed factors that keep mean 0 and variance 1.", "[-1.1113307  2.101402 ]"),
    ("CELU", "celu", "x, and alpha (exp(x / alpha) - 1) below zero.", "[-0.63212055  2.        ]"),
    ("GELU", "gelu", "x times the share of a normal distribution below x.", "[-0.15865526  1.9544997 ]"),
    ("SiLU", "silu", "x * sigmoid(x).", "[-0.2689414  1.7615942]"),
    ("Mish", "mish", "x * tanh(softplus(x)).", "[-0.30340147  1.943959  ]"),
    ("Sigmoid", "sigmoid", "1 / (1 + exp(-x)).", "[0.26894143 0.8807971 ]"),
    ("LogSigmoid", "logsigmoid", "log(sigmoid(x)).", "[-1.3132616  -0.12692805]"),
    ("Tanh", "tanh", "The hyperbolic tangent.", "[-0.7615942  0.9640276]"),
    ("Hardsigmoid", "hardsigmoid", "clamp(x / 6 + 1/2, 0, 1).", "[0.33333334 0.8333333 ]"),
    ("Hardswish", "hardswish", "x * hardsigmoid(x).", "[-0.33333334  1.6666666 ]"),
    ("Hardtanh", "hardtanh", "x between -1 and 1, or other limits.", "[-1.  1.]"),
    ("Softplus", "softplus", "log(1 + exp(x)).", "[0.3132617 2.126928 ]"),
    ("Softsign", "softsign", "x / (1 + |x|).", "[-0.5        0.6666667]"),
    ("Softmax", "softmax", "exp(x) / sum(exp(x)) along an axis, the last one unless given.", "[0.04742587 0.95257413]"),
    ("LogSoftmax", "log_softmax", "log(softmax(x)).", "[-3.0485873  -0.04858735]"),
    ("GLU", "glu", "The first half along the axis times the sigmoid of the second.", "[-0.8807971]"),
):
    _example = (f"print(hd.nn.{_name}()(hd.tensor([-1.0, 2.0])))", _shown)
    _add(_name, _Activation, f"{_about} Settings are those of hd.{_function}().", _example, _function=getattr(functional, _function))
