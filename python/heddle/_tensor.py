"""Methods of tensors that need nothing of C++."""

import copy as _copy_module

from . import _core
from ._core import Tensor
from .devices import device, elsewhere


def _made(cls, value, requires_grad):
    """A tensor of a class, whatever its own __init__ wants."""
    tensor = value
    if cls is not Tensor:
        tensor = cls.__new__(cls)
        Tensor.__init__(tensor, value)
    return tensor.requires_grad_() if requires_grad else tensor


def _rebuild(cls, data, shape, dtype, requires_grad):
    return _made(cls, _core._from_bytes(data, shape, dtype), requires_grad)


def _reduce(self, protocol):
    leaf = self.requires_grad and self.is_leaf
    attributes = getattr(self, "__dict__", None) or None
    return _rebuild, (type(self), self._bytes(), self.shape, self.dtype, leaf), attributes


def _copy(self):
    copied = _made(type(self), self.detach().clone(), self.requires_grad and self.is_leaf)
    if getattr(self, "__dict__", None):
        copied.__dict__.update(self.__dict__)
    return copied


def _deepcopy(self, memo):
    copied = _made(type(self), self.detach().clone(), self.requires_grad and self.is_leaf)
    memo[id(self)] = copied
    if getattr(self, "__dict__", None):
        copied.__dict__.update(_copy_module.deepcopy(self.__dict__, memo))
    return copied


def _contains(self, value):
    found = self == value
    return bool(found.any()) if isinstance(found, Tensor) else bool(found)


def _complex(self):
    return complex(float(self))


def _ufunc(self, ufunc, method, *inputs, **settings):
    """What NumPy's operators and functions of elements do when one operand is a tensor."""
    # Our equal() is PyTorch's: one answer for all elements.
    function = _core.eq if ufunc.__name__ == "equal" else getattr(_core, ufunc.__name__, None)
    if method != "__call__" or settings or function is None:
        return NotImplemented
    return function(*inputs)


def _array_function(self, function, types, args, kwargs):
    """What NumPy's other functions do with tensors: they compute on arrays and give arrays."""
    from .transforms import tree_map

    args, kwargs = tree_map(lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else leaf, (args, kwargs))
    return function(*args, **kwargs)


def _is_device(name):
    return isinstance(name, device) or (
        isinstance(name, str) and name.partition(":")[0] in ("cpu", "cuda", "simulated", "null")
    )


_to_dtype = Tensor.to


def _to(self, *args, device=None, **kwargs):
    """The tensor in another dtype, on another device, or both."""
    if device is None and args and _is_device(args[0]):
        device, args = args[0], args[1:]
    result = self
    if device is not None:
        result = _core._to_device(self, device)
    return _to_dtype(result, *args, **kwargs) if args or kwargs or device is None else result


def _array_namespace(self, *, api_version=None):
    from . import array_api

    if api_version not in (None, "2021.12", "2022.12", "2023.12", array_api.__array_api_version__):
        raise _core.ValueError(f"there is no namespace of version {api_version!r} of the array API")
    return array_api


def _to_device(self, device, /, *, stream=None):
    """The tensor on that device; itself where it is there."""
    if stream is not None:
        raise _core.ValueError("to_device: there are no streams")
    return _core._to_device(self, device)


class _Size(int):
    """The number of elements, as in NumPy; called, sizes of axes, as in PyTorch."""

    def __call__(self, dim=None):
        return self._shape if dim is None else self._shape[dim]


_number_of_elements = Tensor.size


def _size(self):
    size = _Size(_number_of_elements.__get__(self))
    size._shape = self.shape
    return size


def _in_place(name):
    function = getattr(_core, name)

    def change(self, *args, **kwargs):
        self.assign(function(self, *args, **kwargs))
        return self

    change.__name__, change.__qualname__ = f"{name}_", f"Tensor.{name}_"
    change.__doc__ = f"Gives the tensor the value of {name}(self, ...)."
    return change


for _name in (
    "abs add ceil clamp clip copysign cos div exp floor floor_divide index_add index_copy lerp log masked_fill mul neg "
    "pow reciprocal relu remainder round rsqrt scatter scatter_add sigmoid sign sin softplus sqrt square sub tanh tril "
    "triu trunc"
).split():
    setattr(Tensor, f"{_name}_", _in_place(_name))


def _drawn(self, value):
    self.assign(value.cast(self.dtype))
    return self


Tensor.normal_ = lambda self, mean=0.0, std=1.0: _drawn(self, _core.randn(self.shape, device=elsewhere(self)) * std + mean)
Tensor.uniform_ = lambda self, a=0.0, b=1.0: _drawn(self, _core.rand(self.shape, device=elsewhere(self)) * (b - a) + a)
Tensor.size = property(_size, doc=_Size.__doc__)
Tensor.view_as = lambda self, other: self.reshape(other.shape)
Tensor.reshape_as = Tensor.view_as
Tensor.expand_as = lambda self, other: self.expand(other.shape)
Tensor.type_as = lambda self, other: self.cast(other.dtype)
Tensor.is_floating_point = lambda self: self.dtype.is_floating_point
Tensor.new_zeros = lambda self, *shape, dtype=None: _core.zeros(*shape, dtype=dtype or self.dtype, device=elsewhere(self))
Tensor.new_ones = lambda self, *shape, dtype=None: _core.ones(*shape, dtype=dtype or self.dtype, device=elsewhere(self))
Tensor.new_full = lambda self, shape, value, dtype=None: _core.full(
    shape, value, dtype=dtype or self.dtype, device=elsewhere(self)
)
Tensor.new_tensor = lambda self, data, dtype=None: _core.tensor(data, dtype=dtype or self.dtype, device=elsewhere(self))
Tensor.device = property(lambda self: device(_core._where(self)), doc="Where the tensor is, or will be computed.")
Tensor.to_device = _to_device
Tensor.__array_namespace__ = _array_namespace
Tensor.__array_ufunc__ = _ufunc
Tensor.__array_function__ = _array_function
Tensor.to = _to
Tensor.cpu = lambda self: self.to("cpu")
Tensor.cuda = lambda self: self.to("cuda")
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
