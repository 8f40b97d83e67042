from . import functional as functional, init as init, utils as utils
from .containers import (
    ModuleDict as ModuleDict,
    ModuleList as ModuleList,
    ParameterList as ParameterList,
    Sequential as Sequential,
)
from .layers import *
from .losses import *
from .module import Module as Module, Parameter as Parameter
