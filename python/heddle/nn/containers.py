"""Modules made of modules."""

from .module import Module, Parameter


class Sequential(Module):
    """Modules, or functions, one after the other.

    >>> net = hd.nn.Sequential(hd.nn.Linear(4, 8), hd.nn.ReLU(), hd.nn.Linear(8, 2))
    >>> net(hd.ones(3, 4)).shape, len(net)
    ((3, 2), 3)
    """

    def __init__(self, *modules):
        super().__init__()
        self.__dict__["_layers"] = []
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], dict) else enumerate(modules)
        for name, module in named:
            self._add(str(name), module)

    def _add(self, name, module):
        if not callable(module):
            raise TypeError(f"Sequential: {type(module).__name__} is neither a module nor a function")
        if isinstance(module, Module):
            self.register_module(name, module)
        else:
            self.__dict__[name] = module
        self._layers.append(name)

    def append(self, module):
        """One more at the end. Returns the container."""
        self._add(str(len(self._layers)), module)
        return self

    def forward(self, x):
        for name in self._layers:
            x = self.__dict__[name](x)
        return x

    def __len__(self):
        return len(self._layers)

    def __iter__(self):
        return (self.__dict__[name] for name in self._layers)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return Sequential(*(self.__dict__[name] for name in self._layers[index]))
        return self.__dict__[self._layers[index]]


class ModuleList(Module):
    """Modules in a list.

    >>> layers = hd.nn.ModuleList(hd.nn.Linear(4, 4) for _ in range(3))
    >>> len(layers), layers[0].in_features
    (3, 4)
    """

    def __init__(self, modules=()):
        super().__init__()
        self.extend(modules)

    def append(self, module):
        """One more at the end. Returns the container."""
        self.register_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Several more at the end. Returns the container."""
        for module in modules:
            self.append(module)
        return self

    def __len__(self):
        return len(self._kinds)

    def __iter__(self):
        return self.children()

    def __getitem__(self, index):
        if isinstance(index, slice):
            return ModuleList(list(self)[index])
        return list(self)[index]

    def __setitem__(self, index, module):
        self.register_module(list(self._kinds)[index], module)


class ModuleDict(Module):
    """Modules by name.

    >>> parts = hd.nn.ModuleDict({"a": hd.nn.Linear(4, 2)})
    >>> list(parts.keys()), parts["a"].out_features
    (['a'], 2)
    """

    def __init__(self, modules=()):
        super().__init__()
        for name, module in dict(modules).items():
            self[name] = module

    def __setitem__(self, name, module):
        self.register_module(name, module)

    def __getitem__(self, name):
        return dict(self.named_children())[name]

    def __contains__(self, name):
        return name in self._kinds

    def __len__(self):
        return len(self._kinds)

    def __iter__(self):
        return iter(self._kinds)

    def keys(self):
        """The names."""
        return self._kinds.keys()

    def values(self):
        """The modules."""
        return self.children()

    def items(self):
        """Names and modules."""
        return self.named_children()


class ParameterList(Module):
    """Parameters in a list.

    >>> parts = hd.nn.ParameterList([hd.ones(2), hd.zeros(3)])
    >>> len(parts), parts[1].requires_grad
    (2, True)
    """

    def __init__(self, parameters=()):
        super().__init__()
        for parameter in parameters:
            self.append(parameter)

    def append(self, parameter):
        """One more at the end. Returns the container."""
        value = parameter if isinstance(parameter, Parameter) else Parameter(parameter)
        self.register_parameter(str(len(self)), value)
        return self

    def __len__(self):
        return len(self._kinds)

    def __iter__(self):
        return (value for _, value in self._members("parameter"))

    def __getitem__(self, index):
        return list(self)[index]
