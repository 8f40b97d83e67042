"""Methods of tensors that need nothing of C++."""

from . import _core
from ._core import Tensor


def _rebuild(cls, data, shape, dtype, requires_grad):
    tensor = _core._from_bytes(data, shape, dtype)
    if cls is not Tensor:
        return cls(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_() if requires_grad else tensor


def _reduce(self, protocol):
    leaf = self.requires_grad and self.is_leaf
    return _rebuild, (type(self), self._bytes(), self.shape, self.dtype, leaf)


def _copy(self):
    if type(self) is Tensor:
        copied = self.detach().clone()
        return copied.requires_grad_() if self.requires_grad and self.is_leaf else copied
    return type(self)(self.detach(), requires_grad=self.requires_grad)


def _deepcopy(self, memo):
    copied = _copy(self)
    memo[id(self)] = copied
    return copied


def _contains(self, value):
    return bool((self == value).any())


def _complex(self):
    return complex(float(self))


def _ufunc(self, ufunc, method, *inputs, **settings):
    """What NumPy's operators and functions of elements do when one operand is a tensor."""
    # Our equal() is PyTorch's: one answer for all elements.
    function = _core.eq if ufunc.__name__ == "equal" else getattr(_core, ufunc.__name__, None)
    if method != "__call__" or settings or function is None:
        return NotImplemented
    return function(*inputs)


def _array_namespace(self, *, api_version=None):
    from . import array_api

    if api_version not in (None, "2021.12", "2022.12", "2023.12", array_api.__array_api_version__):
        raise _core.ValueError(f"there is no namespace of version {api_version!r} of the array API")
    return array_api


def _to_device(self, device, /, *, stream=None):
    """The tensor itself: all tensors of a process are on one device."""
    if str(device) != self.device or stream is not None:
        raise _core.ValueError(f"there is no device {device!r}; tensors are on {self.device!r}")
    return self


Tensor.device = property(lambda self: _core.default_device(), doc="Where tensors are: the device of HEDDLE_DEVICE.")
Tensor.to_device = _to_device
Tensor.__array_namespace__ = _array_namespace
Tensor.__array_ufunc__ = _ufunc
Tensor.__array_priority__ = 1000
Tensor.__reduce_ex__ = _reduce
Tensor.__copy__ = _copy
Tensor.__deepcopy__ = _deepcopy
Tensor.__contains__ = _contains
Tensor.__complex__ = _complex
Tensor.copy = Tensor.clone
Tensor.float = lambda self: self.cast(_core.float32)
Tensor.double = lambda self: self.cast(_core.float64)
Tensor.half = lambda self: self.cast(_core.float16)
Tensor.bfloat16 = lambda self: self.cast(_core.bfloat16)
Tensor.int = lambda self: self.cast(_core.int32)
Tensor.long = lambda self: self.cast(_core.int64)
Tensor.bool = lambda self: self.cast(_core.bool)
