"""Devices: names of where tensors are, and scopes that say where they are made."""

from . import _core


class device(str):
    """A device by its name: "cpu", "cuda:0", "simulated", "simulated:1". In a `with` statement, where tensors are made.

    An unknown name raises an error that lists the devices that are there.

    >>> with hd.device("simulated:1") as there:
    ...     x = hd.ones(2)
    >>> x.device, there.type, there.index
    (device('simulated:1'), 'simulated', 1)
    """

    def __new__(cls, name):
        return str.__new__(cls, _core._device_name(name))

    @property
    def type(self):
        """The name without a number."""
        return self.partition(":")[0]

    @property
    def index(self):
        """The number; 0 without one."""
        return int(self.partition(":")[2] or 0)

    def memory(self):
        """Bytes used, cached, at the peak, free, and the limit."""
        return _core._device_memory(self)

    def capabilities(self):
        """What the machine can do, as a dictionary."""
        return _core._device_capabilities(self)

    def synchronize(self):
        """Waits until all that was begun there is done."""
        _core._synchronize(self)

    def __repr__(self):
        return f"device({str(self)!r})"

    def __enter__(self):
        _core._enter_device(self)
        return self

    def __exit__(self, *error):
        _core._leave_device()


def elsewhere(tensor):
    """The device of a tensor if it is not the default one, which nobody has to name."""
    place = _core._where(tensor)
    return None if place == _core._default_device() else place


def devices():
    """The devices that are there.

    >>> "cpu" in hd.devices()
    True
    """
    return [device(name) for name in _core._devices()]


def default_device():
    """Where tensors are made, and constants are computed, when nothing else says where.

    >>> hd.default_device() in hd.devices()
    True
    """
    return device(_core._default_device())


def set_default_device(name):
    """Changes the default device of the process.

    >>> before = hd.default_device()
    >>> hd.set_default_device("simulated")
    >>> hd.ones(2).device
    device('simulated')
    >>> hd.set_default_device(before)
    """
    _core._set_default_device(device(name))
