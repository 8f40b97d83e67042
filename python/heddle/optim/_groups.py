"""What PyTorch's programs ask an optimiser for."""

from collections.abc import MutableMapping

from .. import _core

_clear = _core._optim.Optimizer.zero_grad


def zero_grad(self, set_to_none=True):
    """Forgets what backward() has added up, or makes it zeros.

    >>> w = hd.ones(2, requires_grad=True)
    >>> w.sum().backward()
    >>> hd.optim.SGD([w]).zero_grad()
    >>> w.grad is None
    True
    """
    if set_to_none:
        return _clear(self)
    for parameter in self.parameters():
        if parameter.grad is not None:
            parameter.grad.zero_()


class _Group(MutableMapping):
    """Parameters with one rate. Of all that is here the rate alone can be written."""

    def __init__(self, optimizer, written, lr, factor, parameters, weight_decay):
        self._optimizer, self._written, self._factor = optimizer, written, factor
        self._values = {"params": parameters, "lr": lr * factor, "weight_decay": weight_decay}

    def __setitem__(self, key, value):
        if key != "lr":
            raise _core.ValueError(f'param_groups: "lr" alone can be changed, not {key!r}')
        base = float(value) / self._factor
        if any(abs(base - other) > 1e-12 + 1e-6 * abs(base) for other in self._written):
            raise _core.ValueError(
                "param_groups: rates of groups keep their proportions; give groups an lr_factor when the optimiser is made"
            )
        self._written.append(base)
        self._optimizer.lr = base
        self._values["lr"] = float(value)

    def __delitem__(self, key):
        raise _core.ValueError("param_groups: settings of an optimiser cannot be taken away")

    def __getitem__(self, key):
        return self._values[key]

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        return repr({**self._values, "params": f"{len(self._values['params'])} tensors"})


def param_groups(self):
    """Groups of parameters as they are now, each a mapping with params, lr and weight_decay.

    `for group in opt.param_groups: group["lr"] = rate` changes the rate. Rates of groups keep their proportions: to
    write one is to write all.

    >>> opt = hd.optim.SGD([hd.ones(2, requires_grad=True)], lr=0.5)
    >>> opt.param_groups[0]["lr"] = 0.25
    >>> opt.lr, len(opt.param_groups[0]["params"])
    (0.25, 1)
    """
    lr, written, parameters, groups = self.lr, [], self.parameters(), []
    for count, weight_decay, factor in self._groups():
        groups.append(_Group(self, written, lr, factor, parameters[:count], weight_decay))
        parameters = parameters[count:]
    return groups
