"""Heddle: a tensor compiler and deep-learning library.

Operators record; values are computed, in few fused kernels, when somebody looks at them.

    import heddle as hd
    x = hd.randn(4096, 4096)
    y = hd.softmax(hd.tanh(x * 2 + 1), -1)
    print(y.sum().item())
"""

from . import _core
from ._core import *  # noqa: F403
from ._core import Tensor
from . import _tensor  # noqa: F401  what is easier to write in Python
from .control import cond, fori_loop, map, scan, while_loop
from .transforms import (
    checkpoint,
    custom_vjp,
    grad,
    hessian,
    jacobian,
    jit,
    jvp,
    no_grad,
    tree_leaves,
    tree_map,
    value_and_grad,
    vjp,
    vmap,
)
from .devices import default_device, device, devices, set_default_device
from .graph import Graph, graph
from .kernels import kernel
from .progress import progress
from .serialization import load, save
from . import array_api, cuda, data, io, models, nn, optim, plot, random, utils

# Names that people see, and that pickles keep.
for _class in (Tensor, _core.dtype, _core.Generator, _core.Dim, _core.Profile, _core.Captured, _core.PyTree, _core.Tile, _core.KernelBuilder, _core.KernelTensor):
    _class.__module__ = "heddle"

__version__ = _core.__version__
pi = 3.141592653589793
e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
inference_mode = no_grad
float, int, short = _core.float32, _core.int32, _core.int16  # PyTorch's names

import builtins as _builtins

# What `from heddle import *` gives: nothing that hides a name of Python's.
__all__ = [name for name in globals() if not name.startswith("_") and not hasattr(_builtins, name)]
