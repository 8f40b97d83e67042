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
    """x W^T + b over the last axis."""

    def __init__(self, in_features, out_features, bias=True, dtype=None, generator=None):
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self._take(_core._linear_state(in_features, out_features, bias, dtype, generator))

    def forward(self, x):
        return _core.linear(x, self.weight, self.bias)

    def extra_repr(self):
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Embedding(_WithState):
    """Rows of a table, chosen by integers."""

    def __init__(self, num_embeddings, embedding_dim, dtype=None, generator=None):
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self._take(_core._embedding_state(num_embeddings, embedding_dim, dtype, generator))

    def forward(self, ids):
        return _core.embedding(self.weight, ids)

    def extra_repr(self):
        return f"{self.num_embeddings}, {self.embedding_dim}"


class LayerNorm(Module):
    """Mean 0 and variance 1 over the last axes, then times weight, plus bias."""

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
    """Mean square 1 over the last axes, then times weight."""

    def __init__(self, normalized_shape, eps=1e-6, elementwise_affine=True, dtype=None):
        super().__init__()
        self.normalized_shape, self.eps = _tuple(normalized_shape, 1), eps
        self.weight = Parameter(_core.ones(self.normalized_shape, dtype=dtype)) if elementwise_affine else None

    def forward(self, x):
        return _core.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self):
        return f"{self.normalized_shape}, eps={self.eps}"


class GroupNorm(Module):
    """Mean 0 and variance 1 over each of several parts of the channels."""

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


def _add(name, base, **members):
    globals()[name] = type(name, (base,), {"__module__": __name__, "__doc__": base.__doc__, **members})
    __all__.append(name)


for _n in (1, 2, 3):
    _add(f"Conv{_n}d", _Conv, _axes=_n)
    _add(f"ConvTranspose{_n}d", _ConvTranspose, _axes=_n)
    _add(f"BatchNorm{_n}d", _BatchNorm, _ranks=(2, 3) if _n == 1 else (_n + 2,))
    _add(f"MaxPool{_n}d", _Pool, _function=getattr(_core, f"max_pool{_n}d"))
    _add(f"AvgPool{_n}d", _Pool, _function=getattr(_core, f"avg_pool{_n}d"))
    _add(f"AdaptiveAvgPool{_n}d", _AdaptivePool, _function=getattr(_core, f"adaptive_avg_pool{_n}d"))
    _add(f"AdaptiveMaxPool{_n}d", _AdaptivePool, _function=getattr(_core, f"adaptive_max_pool{_n}d"))


class Dropout(Module):
    """Zero with probability p while training, else x / (1 - p). Nothing happens after eval()."""

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
    def forward(self, x):
        return x


class Flatten(Module):
    def __init__(self, start_dim=1, end_dim=-1):
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x):
        return _core.flatten(x, self.start_dim, self.end_dim)


class Unflatten(Module):
    def __init__(self, dim, unflattened_size):
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, x):
        return _core.unflatten(x, self.dim, self.unflattened_size)


class MultiheadAttention(Module):
    """Self-attention over the last but one axis of x [..., time, width], in several heads."""

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


for _name, _function in {
    "ReLU": "relu",
    "ReLU6": "relu6",
    "LeakyReLU": "leaky_relu",
    "ELU": "elu",
    "SELU": "selu",
    "CELU": "celu",
    "GELU": "gelu",
    "SiLU": "silu",
    "Mish": "mish",
    "Sigmoid": "sigmoid",
    "LogSigmoid": "logsigmoid",
    "Tanh": "tanh",
    "Hardsigmoid": "hardsigmoid",
    "Hardswish": "hardswish",
    "Hardtanh": "hardtanh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Softmax": "softmax",
    "LogSoftmax": "log_softmax",
    "GLU": "glu",
}.items():
    _add(_name, _Activation, _function=getattr(functional, _function))
