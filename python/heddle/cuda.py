"""NVIDIA GPUs under PyTorch's names. `hd.devices()` lists devices of every kind."""

from . import _core
from .devices import device

__all__ = ["device_count", "is_available", "manual_seed", "manual_seed_all", "synchronize"]


def device_count():
    """How many NVIDIA GPUs are there.

    >>> hd.cuda.device_count() >= 0
    True
    """
    return sum(name.partition(":")[0] == "cuda" for name in _core._devices())


def is_available():
    """Whether there is an NVIDIA GPU.

    >>> hd.cuda.is_available() == (hd.cuda.device_count() > 0)
    True
    """
    return device_count() > 0


def synchronize(name="cuda"):
    """Waits until all that was begun there is done.

    >>> if hd.cuda.is_available():
    ...     hd.cuda.synchronize()
    """
    device(name).synchronize()


def manual_seed(seed):
    """One generator serves all devices.

    >>> hd.cuda.manual_seed(3)
    >>> hd.default_generator().get_state()
    (3, 0)
    """
    _core.manual_seed(seed)


manual_seed_all = manual_seed
