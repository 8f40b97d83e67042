import builtins as _b

from . import array_api as array_api, control as control, cuda as cuda, data as data, io as io, kernels as kernels
from . import models as models, nn as nn, optim as optim, plot as plot, random as random
from . import serialization as serialization, transforms as transforms, utils as utils
from ._core import *
from ._core import _DType
from .control import cond as cond, fori_loop as fori_loop, map as map, scan as scan, while_loop as while_loop
from .devices import (
    default_device as default_device,
    device as device,
    devices as devices,
    set_default_device as set_default_device,
)
from .graph import Graph as Graph, graph as graph
from .kernels import kernel as kernel
from .progress import progress as progress
from .serialization import load as load, save as save
from .transforms import (
    checkpoint as checkpoint,
    custom_vjp as custom_vjp,
    grad as grad,
    hessian as hessian,
    jacobian as jacobian,
    jit as jit,
    jvp as jvp,
    no_grad as no_grad,
    tree_leaves as tree_leaves,
    tree_map as tree_map,
    value_and_grad as value_and_grad,
    vjp as vjp,
    vmap as vmap,
)

__version__: str
pi: _b.float
e: _b.float
inf: _b.float
nan: _b.float
newaxis: None
inference_mode = no_grad
float: _DType
int: _DType
short: _DType
