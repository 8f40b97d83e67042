import os
from collections.abc import Iterable
from typing import Any, TypeAlias

from ._core import Tensor

_Numbers: TypeAlias = Tensor | Iterable[float | Tensor]

def write_loss_curve(
    path: str | os.PathLike[str],
    series: dict[str, Any] | _Numbers,
    *,
    x: _Numbers | None = None,
    title: str = "",
    x_label: str = "step",
    y_label: str = "loss",
    log_scale: bool = False,
    smoothing: float = 0.0,
    width: int = 720,
    height: int = 440,
) -> None: ...
