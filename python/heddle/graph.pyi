from collections.abc import Iterable
from typing import Any, NamedTuple

from ._core import Tensor

class Node(NamedTuple):
    number: int
    op: str
    dtype: str
    shape: str
    inputs: list[int]
    attributes: str
    body: str

class Graph:
    nodes: list[Node]
    results: list[int]
    def __init__(self, tensors: Iterable[Tensor]) -> None: ...
    def __len__(self) -> int: ...
    def dot(self) -> str: ...
    def svg(self, most: int = 150) -> str: ...
    def _repr_svg_(self) -> str: ...

def graph(what: object, *args: Any, **kwargs: Any) -> Graph: ...
