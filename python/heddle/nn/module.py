"""What all modules can do."""

import warnings
from collections import namedtuple

from .. import _core, _tensor
from .._core import Tensor

_MANY_CHANGES = 20
_PLAIN = (bool, int, float, str, tuple, type(None))
IncompatibleKeys = namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])


class Parameter(Tensor):
    """A tensor that a module trains. It asks for gradients unless told otherwise.

    >>> hd.nn.Parameter(hd.ones(2)).requires_grad
    True
    """

    def __init__(self, data, requires_grad=True):
        super().__init__(data.detach() if isinstance(data, Tensor) else data)
        self.realize()
        if requires_grad:
            self.requires_grad_()


class Module:
    """A part of a model. Parameters and modules that are set as attributes belong to it.

    >>> class Net(hd.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.a, self.b = hd.nn.Linear(784, 512), hd.nn.Linear(512, 10)
    ...     def forward(self, x):
    ...         return self.b(self.a(x).relu())
    >>> net = Net()
    >>> net(hd.ones(2, 784)).shape
    (2, 10)
    >>> list(net.state_dict())
    ['a.weight', 'a.bias', 'b.weight', 'b.bias']
    """

    def __init__(self):
        self.__dict__.update(
            training=True,
            _kinds={},  # names of parameters, buffers and modules, in the order in which they came
            _not_saved=set(),
            _hooks={},
        )

    # What belongs to it.

    def __setattr__(self, name, value):
        kinds = self.__dict__.get("_kinds")
        if kinds is None:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before '{name}' is set")
        kind = "parameter" if isinstance(value, Parameter) else "module" if isinstance(value, Module) else None
        known = kinds.get(name)
        if kind is None and known is not None and value is not None:
            if known == "buffer" and isinstance(value, Tensor):
                kind = "buffer"
            else:
                raise TypeError(f"{type(self).__name__}.{name} is a {known}; it cannot become {type(value).__name__}")
        if kind is not None:
            kinds[name] = kind
        elif isinstance(value, _PLAIN) and name in self.__dict__ and not _core.is_capturing():
            before = self.__dict__[name]
            if before is not value and (isinstance(value, tuple) or type(before) is not type(value) or before != value):
                self._setting_changed(name)
        self.__dict__[name] = value

    def _setting_changed(self, name):
        """Captured functions have the old one: they are recorded again."""
        _core.forget_recordings()
        counts = self.__dict__.setdefault("_changes", {})
        counts[name] = counts.get(name, 0) + 1
        if counts[name] == _MANY_CHANGES:
            warnings.warn(
                f"{type(self).__name__}.{name} has changed {_MANY_CHANGES} times, and captured functions are recorded "
                "again each time. Keep what changes from step to step in a tensor, or outside of the module",
                stacklevel=3,
            )

    def __delattr__(self, name):
        self.__dict__.get("_kinds", {}).pop(name, None)
        self.__dict__.get("_not_saved", set()).discard(name)
        object.__delattr__(self, name)

    def register_parameter(self, name, value):
        """Makes a tensor one that is trained, under a name; None keeps the name free."""
        if value is not None and not isinstance(value, Parameter):
            raise TypeError(f"register_parameter: '{name}' is no Parameter")
        self._kinds[name] = "parameter"
        self.__dict__[name] = value

    def register_buffer(self, name, value, persistent=True):
        """State that is saved with the parameters, unless it is not persistent, and never trained."""
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"register_buffer: '{name}' is no tensor")
        self._kinds[name] = "buffer"
        self.__dict__[name] = value
        (self._not_saved.discard if persistent else self._not_saved.add)(name)

    def register_module(self, name, module):
        """Makes a module a part, under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"register_module: '{name}' is no Module")
        self._kinds[name] = "module"
        self.__dict__[name] = module

    add_module = register_module

    def _members(self, kind):
        for name, each in self._kinds.items():
            value = self.__dict__[name]
            if each == kind and value is not None:
                yield name, value

    def named_children(self):
        """The modules right inside, with their names."""
        yield from self._members("module")

    def children(self):
        """The modules right inside."""
        for _, module in self.named_children():
            yield module

    def named_modules(self, prefix="", _seen=None):
        """This module and all of its parts, each once, with their paths."""
        seen = set() if _seen is None else _seen
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, module in self.named_children():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name, seen)

    def modules(self):
        """This module and all of its parts, each once."""
        for _, module in self.named_modules():
            yield module

    def _named(self, kind, once=True):
        seen = set()
        for path, module in self.named_modules():
            for name, tensor in module._members(kind):
                if once and id(tensor) in seen:
                    continue
                seen.add(id(tensor))
                yield (f"{path}.{name}" if path else name), tensor

    def named_parameters(self):
        """All parameters, frozen ones too, each once, with their paths."""
        yield from self._named("parameter")

    def parameters(self):
        """The tensors to train, each once, in a list: what an optimiser and grad() take."""
        return [tensor for _, tensor in self.named_parameters() if tensor.requires_grad]

    def named_buffers(self):
        """All buffers, each once, with their paths."""
        yield from self._named("buffer")

    def buffers(self):
        """All buffers, each once."""
        return [tensor for _, tensor in self.named_buffers()]

    def get_submodule(self, path):
        """The part at a path, such as "layers.0"."""
        module = self
        for name in path.split(".") if path else []:
            if not isinstance(getattr(module, name, None), Module):
                raise AttributeError(f"{type(self).__name__} has no part '{path}'")
            module = getattr(module, name)
        return module

    def get_parameter(self, path):
        """The parameter at a path, such as "layers.0.weight"."""
        owner, _, name = path.rpartition(".")
        value = getattr(self.get_submodule(owner), name, None)
        if not isinstance(value, Parameter):
            raise AttributeError(f"{type(self).__name__} has no parameter '{path}'")
        return value

    def parameter_count(self):
        """Elements of all parameters, frozen ones too.

        >>> hd.nn.Linear(3, 2).parameter_count()
        8
        """
        return sum(tensor.numel() for _, tensor in self.named_parameters())

    def summary(self):
        """A table of all tensors: path, shape, dtype, elements, and whether they are trained.

        >>> print(hd.nn.Linear(3, 2).summary())
        tensor  shape   dtype    elements
        weight  (2, 3)  float32         6
        bias    (2,)    float32         2
        total                           8
        """
        rows = [("tensor", "shape", "dtype", "elements", "")]
        for kind in ("parameter", "buffer"):
            for path, tensor in self._named(kind):
                note = "buffer" if kind == "buffer" else "" if tensor.requires_grad else "frozen"
                rows.append((path, str(tensor.shape), str(tensor.dtype), f"{tensor.numel():,}", note))
        rows.append(("total", "", "", f"{self.parameter_count():,}", ""))
        a, b, c, d = (max(len(row[i]) for row in rows) for i in range(4))
        return "\n".join(f"{r[0]:<{a}}  {r[1]:<{b}}  {r[2]:<{c}}  {r[3]:>{d}}  {r[4]}".rstrip() for r in rows)

    # Calls.

    def forward(self, *args, **kwargs):
        """What the module computes: every module has its own. Call the module itself, which also calls hooks."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self, *args, **kwargs):
        if not self._hooks:
            return self.forward(*args, **kwargs)
        for hook in list(self._hooks.get("before", {}).values()):
            changed = hook(self, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
        result = self.forward(*args, **kwargs)
        for hook in list(self._hooks.get("after", {}).values()):
            changed = hook(self, args, result)
            if changed is not None:
                result = changed
        return result

    def register_forward_pre_hook(self, hook):
        """hook(module, args) before each call; what it gives replaces the arguments. Returns a handle: .remove()."""
        return _Handle(self, "before", hook)

    def register_forward_hook(self, hook):
        """hook(module, args, result) after each call; what it gives replaces the result. Returns a handle: .remove()."""
        return _Handle(self, "after", hook)

    # State.

    def _tensors(self):
        """All parameters and buffers that are saved, by path; under all of their paths if they have several."""
        result = {}

        def add(prefix, module, inside):
            if id(module) in inside:
                raise _core.ValueError(f"{type(self).__name__}: {type(module).__name__} is a part of itself")
            for kind in ("parameter", "buffer"):
                for name, tensor in module._members(kind):
                    if name not in module._not_saved:
                        result[prefix + name] = tensor
            for name, child in module.named_children():
                add(f"{prefix}{name}.", child, inside | {id(module)})

        add("", self, frozenset())
        return result

    def state_dict(self):
        """All parameters and buffers by path, as they are now."""
        return {name: tensor.detach() for name, tensor in self._tensors().items()}

    def load_state_dict(self, state, strict=True):
        """Gives the tensors new values. Names and shapes must fit, or nothing changes; floats take the module's dtype."""
        own = self._tensors()
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        problems = []
        if strict and missing:
            problems.append("missing: " + ", ".join(missing))
        if strict and unexpected:
            problems.append("unexpected: " + ", ".join(unexpected))
        values = {}
        for name, tensor in own.items():
            if name in state:
                value = _core.as_tensor(state[name])
                if value.shape != tensor.shape:
                    problems.append(f"{name} has shape {value.shape}, not {tensor.shape}")
                values[name] = value
        if problems:
            raise _core.ValueError(f"load_state_dict of {type(self).__name__}: " + "; ".join(problems))
        for name, value in values.items():
            own[name].assign(value.detach().cast(own[name].dtype))
        return IncompatibleKeys(missing, unexpected)

    def save(self, path):
        """Writes all parameters and buffers into a safetensors file."""
        _core.save_safetensors(path, self.state_dict())

    def load(self, path):
        """Gives parameters and buffers the values of a safetensors file."""
        return self.load_state_dict(_core.load_safetensors(path))

    # Changes.

    def train(self, mode=True):
        """Whether dropout drops and statistics follow. Captured functions are recorded again."""
        for module in self.modules():
            module.__dict__["training"] = bool(mode)
        _core.forget_recordings()
        return self

    def eval(self):
        """train(False)."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Whether parameters ask for gradients: False freezes them."""
        for _, tensor in self.named_parameters():
            tensor.requires_grad_(requires_grad)
        _core.forget_recordings()
        return self

    def zero_grad(self):
        """Forgets what backward() has added up."""
        for _, tensor in self.named_parameters():
            tensor.zero_grad()

    def apply(self, f):
        """Calls f with every part and then with the module itself."""
        for module in list(self.modules())[::-1]:
            f(module)
        return self

    def to(self, dtype):
        """Takes all tensors to a device; or replaces all float tensors by ones of another dtype.

        Moved tensors stay the same: optimisers go on with them. Convert before an optimiser takes hold of them.
        """
        if _tensor._is_device(dtype):
            tensors = [t for m in self.modules() for kind in ("parameter", "buffer") for _, t in m._members(kind)]
            gradients = [t.grad for t in tensors if t.grad is not None]
            _core._move(tensors + gradients, dtype)
            _core.forget_recordings()
            return self
        replaced = {}
        for module in self.modules():
            for kind in ("parameter", "buffer"):
                for name, tensor in list(module._members(kind)):
                    if not tensor.dtype.is_floating_point or tensor.dtype == dtype:
                        continue
                    if id(tensor) not in replaced:
                        cast = tensor.detach().cast(dtype)
                        new = Parameter(cast, tensor.requires_grad) if kind == "parameter" else cast.realize()
                        replaced[id(tensor)] = (new, tensor)  # the old one stays, so that no other has its id
                    module.__dict__[name] = replaced[id(tensor)][0]
        return self

    def cpu(self):
        """to("cpu")."""
        return self.to("cpu")

    def cuda(self):
        """to("cuda")."""
        return self.to("cuda")

    def float(self):
        """to(float32)."""
        return self.to(_core.float32)

    def double(self):
        """to(float64)."""
        return self.to(_core.float64)

    def half(self):
        """to(float16)."""
        return self.to(_core.float16)

    def bfloat16(self):
        """to(bfloat16)."""
        return self.to(_core.bfloat16)

    # Text.

    def extra_repr(self):
        """What stands between the parentheses of repr()."""
        return ""

    def __repr__(self):
        lines = []
        for name, module in self.named_children():
            lines.append(f"  ({name}): " + repr(module).replace("\n", "\n  "))
        if not lines:
            return f"{type(self).__name__}({self.extra_repr()})"
        return f"{type(self).__name__}({self.extra_repr()}\n" + "\n".join(lines) + "\n)"


class _Handle:
    """Takes a hook away again."""

    _last = 0

    def __init__(self, module, when, hook):
        _Handle._last += 1
        self._number, self._hooks = _Handle._last, module._hooks
        self._when = when
        self._hooks.setdefault(when, {})[self._number] = hook
        _core.forget_recordings()

    def remove(self):
        self._hooks.get(self._when, {}).pop(self._number, None)
        _core.forget_recordings()
