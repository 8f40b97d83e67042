from collections.abc import Callable
from typing import TypeVar, overload

from typing_extensions import TypeVarTuple, Unpack

from ._core import Tensor

_T = TypeVar("_T")
_R = TypeVar("_R")
_X = TypeVar("_X")
_Y = TypeVar("_Y")
_Ts = TypeVarTuple("_Ts")

def cond(
    pred: Tensor | bool,
    true_fn: Callable[[Unpack[_Ts]], _R],
    false_fn: Callable[[Unpack[_Ts]], _R],
    *operands: Unpack[_Ts],
) -> _R: ...
@overload
def while_loop(
    cond_fun: Callable[[Tensor], Tensor | bool], body_fun: Callable[[Tensor], Tensor | float], init_val: float
) -> Tensor: ...
@overload
def while_loop(cond_fun: Callable[[_T], Tensor | bool], body_fun: Callable[[_T], _T], init_val: _T) -> _T: ...
@overload
def scan(
    f: Callable[[Tensor, _X], tuple[Tensor, _Y]],
    init: float,
    xs: _X = ...,
    length: int | None = None,
    reverse: bool = False,
    recompute_every: int = 0,
) -> tuple[Tensor, _Y]: ...
@overload
def scan(
    f: Callable[[_T, _X], tuple[_T, _Y]],
    init: _T,
    xs: _X = ...,
    length: int | None = None,
    reverse: bool = False,
    recompute_every: int = 0,
) -> tuple[_T, _Y]: ...
@overload
def fori_loop(
    lower: int | Tensor, upper: int | Tensor, body_fun: Callable[[Tensor, Tensor], Tensor | float], init_val: float
) -> Tensor: ...
@overload
def fori_loop(
    lower: int | Tensor, upper: int | Tensor, body_fun: Callable[[Tensor, _T], _T], init_val: _T
) -> _T: ...
def map(f: Callable[[_X], _Y], xs: _X) -> _Y: ...
