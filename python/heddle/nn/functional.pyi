# Made by scripts/python_stubs.py from the module. Do not change it by hand.
import builtins as _b
from collections.abc import Callable as _Callable

from .._core import Generator as _Generator, Tensor as _Tensor, _TensorLike
from .._core import adaptive_avg_pool1d as adaptive_avg_pool1d
from .._core import adaptive_avg_pool2d as adaptive_avg_pool2d
from .._core import adaptive_avg_pool3d as adaptive_avg_pool3d
from .._core import adaptive_max_pool1d as adaptive_max_pool1d
from .._core import adaptive_max_pool2d as adaptive_max_pool2d
from .._core import adaptive_max_pool3d as adaptive_max_pool3d
from .._core import avg_pool1d as avg_pool1d
from .._core import avg_pool2d as avg_pool2d
from .._core import avg_pool3d as avg_pool3d
from .._core import batch_norm as batch_norm
from .._core import binary_cross_entropy as binary_cross_entropy
from .._core import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .._core import conv1d as conv1d
from .._core import conv2d as conv2d
from .._core import conv3d as conv3d
from .._core import conv_transpose1d as conv_transpose1d
from .._core import conv_transpose2d as conv_transpose2d
from .._core import conv_transpose3d as conv_transpose3d
from .._core import cross_entropy as cross_entropy
from .._core import gelu as gelu
from .._core import glu as glu
from .._core import group_norm as group_norm
from .._core import huber_loss as huber_loss
from .._core import kl_div as kl_div
from .._core import l1_loss as l1_loss
from .._core import layer_norm as layer_norm
from .._core import linear as linear
from .._core import log_softmax as log_softmax
from .._core import logsigmoid as logsigmoid
from .._core import max_pool1d as max_pool1d
from .._core import max_pool2d as max_pool2d
from .._core import max_pool3d as max_pool3d
from .._core import mse_loss as mse_loss
from .._core import nll_loss as nll_loss
from .._core import one_hot as one_hot
from .._core import pad as pad
from .._core import rms_norm as rms_norm
from .._core import rss_loss as rss_loss
from .._core import scaled_dot_product_attention as scaled_dot_product_attention
from .._core import sigmoid as sigmoid
from .._core import smooth_l1_loss as smooth_l1_loss
from .._core import softmax as softmax
from .._core import softmin as softmin
from .._core import softplus as softplus
from .._core import softsign as softsign
from .._core import tanh as tanh
from .._core import unfold as unfold

def celu(x: _TensorLike, alpha: _b.float = 1.0, *, inplace: _b.bool = False) -> _Tensor: ...
def dropout(x: _TensorLike, p: _b.float = 0.5, training: _b.bool = True, generator: _Generator | None = None, *, inplace: _b.bool = False) -> _Tensor: ...
def elu(x: _TensorLike, alpha: _b.float = 1.0, *, inplace: _b.bool = False) -> _Tensor: ...
def embedding(input: _TensorLike, weight: _TensorLike) -> _Tensor: ...
def hardsigmoid(x: _TensorLike, *, inplace: _b.bool = False) -> _Tensor: ...
def hardswish(x: _TensorLike, *, inplace: _b.bool = False) -> _Tensor: ...
def hardtanh(x: _TensorLike, low: _b.float = -1.0, high: _b.float = 1.0, *, min: _b.float = -1.0, max: _b.float = 1.0, inplace: _b.bool = False) -> _Tensor: ...
def leaky_relu(x: _TensorLike, negative_slope: _b.float = 0.01, *, inplace: _b.bool = False) -> _Tensor: ...
def mish(x: _TensorLike, *, inplace: _b.bool = False) -> _Tensor: ...
def relu(x: _TensorLike, *, inplace: _b.bool = False) -> _Tensor: ...
def relu6(x: _TensorLike, *, inplace: _b.bool = False) -> _Tensor: ...
def selu(x: _TensorLike, *, inplace: _b.bool = False) -> _Tensor: ...
def silu(x: _TensorLike, *, inplace: _b.bool = False) -> _Tensor: ...
def threshold(x: _TensorLike, threshold: _b.float, value: _b.float, *, inplace: _b.bool = False) -> _Tensor: ...
def changing(function: _Callable[..., _Tensor]) -> _Callable[..., _Tensor]: ...
