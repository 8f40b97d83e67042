from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ContextDecorator
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

from typing_extensions import Self, TypeVarTuple, Unpack

from ._core import Captured, Tensor

_T = TypeVar("_T")
_R = TypeVar("_R")
_X = TypeVar("_X")
_K = TypeVar("_K")
_Tensor = TypeVar("_Tensor", bound=Tensor)
_P = ParamSpec("_P")
_Ts = TypeVarTuple("_Ts")

def tree_leaves(tree: object) -> list[Any]: ...
def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any: ...

# Of a tensor with respect to others: in the same nesting.
@overload
def grad(f: Tensor, params: Tensor, *, allow_unused: bool = False, cotangent: Tensor | None = None) -> Tensor: ...
@overload
def grad(
    f: Tensor, params: tuple[Tensor, ...], *, allow_unused: bool = False, cotangent: Tensor | None = None
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    f: Tensor, params: dict[_K, Tensor], *, allow_unused: bool = False, cotangent: Tensor | None = None
) -> dict[_K, Tensor]: ...
@overload
def grad(
    f: Tensor,
    params: list[_Tensor] | Iterator[_Tensor],
    *,
    allow_unused: bool = False,
    cotangent: Tensor | None = None,
) -> list[Tensor]: ...
@overload
def grad(
    f: Tensor,
    params: list[Any] | tuple[Any, ...] | dict[Any, Any],
    *,
    allow_unused: bool = False,
    cotangent: Tensor | None = None,
) -> Any: ...

# The function that gives a gradient of another one.
@overload
def grad(  # type: ignore[overload-overlap]
    f: Callable[Concatenate[_T, _P], tuple[object, _X]], *, argnums: Literal[0] = 0, has_aux: Literal[True]
) -> Callable[Concatenate[_T, _P], tuple[_T, _X]]: ...
@overload
def grad(
    f: Callable[Concatenate[_T, _P], object], *, argnums: Literal[0] = 0, has_aux: Literal[False] = False
) -> Callable[Concatenate[_T, _P], _T]: ...
@overload
def grad(
    f: Callable[_P, object], *, argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[_P, Any]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[_T, _P], _R], argnums: Literal[0] = 0, has_aux: bool = False
) -> Callable[Concatenate[_T, _P], tuple[_R, _T]]: ...
@overload
def value_and_grad(
    f: Callable[_P, _R], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[_P, tuple[_R, Any]]: ...

class no_grad(ContextDecorator):
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

def vjp(
    f: Callable[[Unpack[_Ts]], _R], *primals: Unpack[_Ts]
) -> tuple[_R, Callable[[_R], tuple[Unpack[_Ts]]]]: ...
def jvp(f: Callable[..., _R], primals: Iterable[Any], tangents: Iterable[Any]) -> tuple[_R, _R]: ...
def vmap(
    f: Callable[_P, _R],
    in_axes: int | tuple[int | None, ...] | list[int | None] = 0,
    out_axes: int = 0,
) -> Callable[_P, _R]: ...
def checkpoint(f: Callable[[Unpack[_Ts]], _R], *args: Unpack[_Ts]) -> _R: ...
def custom_vjp(
    forward: Callable[_P, Tensor],
    backward: Callable[[tuple[Tensor, ...], Tensor, Tensor], Tensor | Sequence[Tensor]],
) -> Callable[_P, Tensor]: ...
@overload
def jit(f: None = None) -> Callable[[Callable[_P, _R]], Captured[_P, _R]]: ...
@overload
def jit(f: Callable[_P, _R]) -> Captured[_P, _R]: ...
@overload
def jacobian(f: Callable[[Tensor], Tensor], x: None = None) -> Callable[[Tensor], Tensor]: ...
@overload
def jacobian(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor: ...
@overload
def hessian(f: Callable[[Tensor], Tensor], x: None = None) -> Callable[[Tensor], Tensor]: ...
@overload
def hessian(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor: ...
