"""Modules, layers and losses, with PyTorch's names, settings and first values."""

from . import functional, init, utils
from .containers import ModuleDict, ModuleList, ParameterList, Sequential
from .layers import *  # noqa: F403
from .losses import *  # noqa: F403
from .module import Module, Parameter
