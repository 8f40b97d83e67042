from collections.abc import Callable, Iterable, Mapping
from typing import Any, SupportsFloat

from . import Optimizer

class LRScheduler:
    optimizer: Optimizer
    last_epoch: int
    base_lr: float
    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None: ...
    def factor(self, epoch: int) -> float: ...
    def step(self) -> None: ...
    def get_last_lr(self) -> list[float]: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

class LambdaLR(LRScheduler):
    lr_lambda: Callable[[int], float]
    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float], last_epoch: int = -1) -> None: ...
    def factor(self, epoch: int) -> float: ...

class StepLR(LRScheduler):
    step_size: int
    gamma: float
    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None: ...
    def factor(self, epoch: int) -> float: ...

class MultiStepLR(LRScheduler):
    milestones: list[int]
    gamma: float
    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None: ...
    def factor(self, epoch: int) -> float: ...

class ExponentialLR(LRScheduler):
    gamma: float
    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None: ...
    def factor(self, epoch: int) -> float: ...

class LinearLR(LRScheduler):
    start_factor: float
    end_factor: float
    total_iters: int
    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = ...,  # 1 / 3
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None: ...
    def factor(self, epoch: int) -> float: ...

class CosineAnnealingLR(LRScheduler):
    T_max: int
    eta_min: float
    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None: ...
    def factor(self, epoch: int) -> float: ...

class ReduceLROnPlateau:
    optimizer: Optimizer
    mode: str
    factor: float
    patience: int
    threshold: float
    min_lr: float
    best: float | None
    waited: int
    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        min_lr: float = 0.0,
    ) -> None: ...
    def step(self, metrics: SupportsFloat) -> None: ...
