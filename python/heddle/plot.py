"""Curves in files that a browser shows."""

import os

from . import _core
from ._core import Tensor


def _numbers(values):
    return [float(value) for value in (values.flatten().tolist() if isinstance(values, Tensor) else values)]


def write_loss_curve(
    path,
    series,
    *,
    x=None,
    title="",
    x_label="step",
    y_label="loss",
    log_scale=False,
    smoothing=0.0,
    width=720,
    height=440,
):
    """Writes series of numbers as lines into an SVG file, whole or not at all. NaN and infinity leave gaps.

    series: a dictionary from names to numbers or tensors, or one series alone. x: what all are drawn over; else 0, 1, 2,
    ... log_scale: of the y axis; numbers that are not positive are left out. smoothing: in [0, 1), the weight of the
    past in a moving average; the numbers themselves stay as a faint line.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "loss.svg")
    >>> hd.plot.write_loss_curve(path, {"train": [3, 2, 1.5], "test": hd.tensor([3.0, 2.5, 2.2])}, log_scale=True)
    >>> open(path).read(4)
    '<svg'
    """
    named = series if isinstance(series, dict) else {"": series}
    over = [] if x is None else _numbers(x)
    lines = {str(name): (_numbers(values), over) for name, values in named.items()}
    settings = (title, x_label, y_label, log_scale, smoothing, width, height)
    _core._write_loss_curve(os.fspath(path), lines, *settings)
