"""Nested values with tensors in one file: hd.save(net.state_dict(), path). Safetensors files are the better exchange."""

import os
import pickle

from . import _core
from ._core import Tensor
from ._tensor import _rebuild

_PLAIN = {"collections": ("OrderedDict",), "builtins": ("set", "frozenset", "complex")}


class _Reader(pickle.Unpickler):
    """A file of others cannot run code: it may name nothing but what tensors and containers are made with."""

    def find_class(self, module, name):
        found = None
        if name in _PLAIN.get(module, ()) or (module.partition(".")[0] == "heddle" and "." not in name):
            found = super().find_class(module, name)
        tensors = isinstance(found, type) and issubclass(found, Tensor)
        if found is not None and (module in _PLAIN or tensors or found is _rebuild or isinstance(found, _core.dtype)):
            return found
        raise pickle.UnpicklingError(f"load: the file names {module}.{name}; weights_only=False reads files that you trust")


def save(value, path):
    """Writes tensors in any nesting of tuples, lists and dicts. `path` may be a file that is open for writing bytes.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.hd")
    >>> hd.save({"w": hd.ones(2), "step": 7}, path)
    >>> hd.load(path)
    {'w': tensor([1., 1.]), 'step': 7}
    """
    if hasattr(path, "write"):
        return pickle.dump(value, path)
    with open(os.fspath(path), "wb") as file:
        pickle.dump(value, file)


def load(path, map_location=None, weights_only=True):
    """Reads what save() wrote; onto a device, if one is given.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.hd")
    >>> hd.save({"w": hd.ones(2), "step": 7}, path)
    >>> hd.load(path)
    {'w': tensor([1., 1.]), 'step': 7}
    """
    if not hasattr(path, "read"):
        with open(os.fspath(path), "rb") as file:
            return load(file, map_location, weights_only)
    value = (_Reader if weights_only else pickle.Unpickler)(path).load()
    if map_location is None:
        return value
    return _moved(value, map_location)


def _moved(value, place):
    if isinstance(value, Tensor):
        return value.to(place)
    if isinstance(value, dict):
        return type(value)((key, _moved(each, place)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return type(value)(_moved(each, place) for each in value)
    return value
