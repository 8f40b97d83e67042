from collections.abc import Callable
from typing import Any, Concatenate, overload

from ._core import KernelBuilder

# A call of a kernel gives one tensor, or a tuple of several: what it declares with k.output().
@overload
def kernel(
    f: None = None, *, threads: int = 0
) -> Callable[[Callable[Concatenate[KernelBuilder, ...], None]], Callable[..., Any]]: ...
@overload
def kernel(f: Callable[Concatenate[KernelBuilder, ...], None], *, threads: int = 0) -> Callable[..., Any]: ...
