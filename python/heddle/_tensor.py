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
    """The tensor in another dtype, on another device, or both.

    >>> hd.ones(2).to(hd.float16).dtype, hd.ones(2).to("cpu").device
    (heddle.float16, device('cpu'))
    """
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
    """The tensor on that device; itself where it is there.

    >>> x = hd.ones(2)
    >>> x.to_device("cpu") is x
    True
    """
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
    change.__doc__ = f"Gives the tensor the value of {name}(self, ...), and returns it."
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


def _is_floating_point(self):
    """Whether the elements are floats.

    >>> hd.ones(2).is_floating_point(), hd.arange(2).is_floating_point()
    (True, False)
    """
    return self.dtype.is_floating_point


def _normal_(self, mean=0.0, std=1.0):
    """Gives the tensor normally distributed values.

    >>> hd.zeros(2, 3).normal_(std=0.1).shape
    (2, 3)
    """
    return _drawn(self, _core.randn(self.shape, device=elsewhere(self)) * std + mean)


def _uniform_(self, a=0.0, b=1.0):
    """Gives the tensor values in [a, b), equally likely.

    >>> hd.zeros(2, 3).uniform_(-1, 1).shape
    (2, 3)
    """
    return _drawn(self, _core.rand(self.shape, device=elsewhere(self)) * (b - a) + a)


def _reshape_as(self, other):
    """In the shape of another tensor.

    >>> hd.arange(4).reshape_as(hd.ones(2, 2)).shape
    (2, 2)
    """
    return self.reshape(other.shape)


def _expand_as(self, other):
    """Expanded to the shape of another tensor.

    >>> hd.ones(1, 2).expand_as(hd.ones(3, 2)).shape
    (3, 2)
    """
    return self.expand(other.shape)


def _type_as(self, other):
    """In the dtype of another tensor.

    >>> hd.ones(2).type_as(hd.arange(2)).dtype
    heddle.int64
    """
    return self.cast(other.dtype)


def _new_zeros(self, *shape, dtype=None):
    """Zeros of the tensor's dtype, where it is.

    >>> hd.arange(2).new_zeros(3)
    tensor([0, 0, 0])
    """
    return _core.zeros(*shape, dtype=dtype or self.dtype, device=elsewhere(self))


def _new_ones(self, *shape, dtype=None):
    """Ones of the tensor's dtype, where it is.

    >>> hd.arange(2).new_ones(3)
    tensor([1, 1, 1])
    """
    return _core.ones(*shape, dtype=dtype or self.dtype, device=elsewhere(self))


def _new_full(self, shape, value, dtype=None):
    """One number everywhere, of the tensor's dtype, where it is.

    >>> hd.arange(2).new_full((3,), 7)
    tensor([7, 7, 7])
    """
    return _core.full(shape, value, dtype=dtype or self.dtype, device=elsewhere(self))


def _new_tensor(self, data, dtype=None):
    """A tensor of data, of this one's dtype, where it is.

    >>> hd.ones(2).new_tensor([1, 2])
    tensor([1., 2.])
    """
    return _core.tensor(data, dtype=dtype or self.dtype, device=elsewhere(self))


def _cast_to(name, dtype):
    def cast(self):
        return self.cast(dtype)

    cast.__name__, cast.__qualname__ = name, f"Tensor.{name}"
    cast.__doc__ = f"""The elements as {dtype}.

    >>> hd.ones(2).{name}().dtype
    {dtype!r}
    """
    return cast


def _cpu(self):
    """The tensor on the CPU; itself where it is there.

    >>> hd.ones(2).cpu().device
    device('cpu')
    """
    return self.to("cpu")


def _cuda(self):
    """The tensor on the first GPU; itself where it is there."""
    return self.to("cuda")


for _name, _dtype in {
    "float": _core.float32,
    "double": _core.float64,
    "half": _core.float16,
    "bfloat16": _core.bfloat16,
    "int": _core.int32,
    "long": _core.int64,
    "bool": _core.bool,
}.items():
    setattr(Tensor, _name, _cast_to(_name, _dtype))

def _repr_html_(self):
    """In a notebook: the elements, and shape, dtype and device below them."""
    from . import _draw

    if _core.is_capturing():
        return None
    return _draw.tensor_html(str(self), f"shape {self.shape} · {self.dtype} · {self.device}")


def _profile_html(self):
    from . import _draw

    return _draw.profile_html(self)


Tensor.normal_ = _normal_
Tensor.uniform_ = _uniform_
Tensor.size = property(_size, doc="The number of elements, as in NumPy; called, sizes of axes, as in PyTorch.")
Tensor.view_as = _reshape_as
Tensor.reshape_as = _reshape_as
Tensor.expand_as = _expand_as
Tensor.type_as = _type_as
Tensor.is_floating_point = _is_floating_point
Tensor.new_zeros = _new_zeros
Tensor.new_ones = _new_ones
Tensor.new_full = _new_full
Tensor.new_tensor = _new_tensor
Tensor.device = property(lambda self: device(_core._where(self)), doc="Where the tensor is, or will be computed.")
Tensor.to_device = _to_device
Tensor._repr_html_ = _repr_html_
_core.Profile._repr_html_ = _profile_html
Tensor.__array_namespace__ = _array_namespace
Tensor.__array_ufunc__ = _ufunc
Tensor.__array_function__ = _array_function
Tensor.to = _to
Tensor.cpu = _cpu
Tensor.cuda = _cuda
Tensor.__array_priority__ = 1000
Tensor.__reduce_ex__ = _reduce
Tensor.__copy__ = _copy
Tensor.__deepcopy__ = _deepcopy
Tensor.__contains__ = _contains
Tensor.__complex__ = _complex
Tensor.copy = Tensor.clone
