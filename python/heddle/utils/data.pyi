from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from .._core import Generator, Tensor

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)

class _Samples(Protocol[_T_co]):
    def __getitem__(self, index: int, /) -> _T_co: ...
    def __len__(self) -> int: ...

class Dataset(Generic[_T_co]):
    def __getitem__(self, index: int, /) -> _T_co: ...
    def __add__(self, other: _Samples[Any], /) -> ConcatDataset[Any]: ...

class IterableDataset(Dataset[_T_co]):
    def __iter__(self) -> Iterator[_T_co]: ...

class TensorDataset(Dataset[tuple[Tensor, ...]]):
    tensors: tuple[Tensor, ...]
    def __init__(self, *tensors: Tensor) -> None: ...
    def __getitem__(self, index: int | slice[Any, Any, Any] | Tensor, /) -> tuple[Tensor, ...]: ...
    def __len__(self) -> int: ...

class Subset(Dataset[_T_co]):
    dataset: _Samples[_T_co]
    indices: list[int]
    def __init__(self, dataset: _Samples[_T_co], indices: Iterable[int]) -> None: ...
    def __len__(self) -> int: ...

class ConcatDataset(Dataset[_T_co]):
    datasets: list[_Samples[_T_co]]
    def __init__(self, datasets: Iterable[_Samples[_T_co]]) -> None: ...
    def __len__(self) -> int: ...

def random_split(
    dataset: _Samples[_T], lengths: Iterable[float], generator: Generator | None = None
) -> list[Subset[_T]]: ...
def default_collate(samples: Sequence[Any]) -> Any: ...

class DataLoader:
    dataset: Any
    batch_size: int | None
    shuffle: bool
    drop_last: bool
    sampler: Iterable[Any] | None
    batch_sampler: Iterable[Iterable[Any]] | None
    generator: Generator | None
    collate_fn: Callable[[list[Any]], Any] | None
    def __init__(
        self,
        dataset: Dataset[Any] | _Samples[Any] | Iterable[Any],
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Iterable[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        generator: Generator | None = None,
        persistent_workers: bool = False,
        prefetch_factor: int | None = None,
    ) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
