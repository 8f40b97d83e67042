"""Functions of functions: gradients, vmap, jit. Arguments and results may be nested (pytrees)."""

import contextlib
import copy
import functools

from . import _core
from ._core import Tensor, tree_flatten, tree_unflatten


def tree_leaves(tree):
    """The leaves of a value: what is no tuple, list, dict, dataclass or registered class.

    >>> hd.tree_leaves({"a": 1, "b": (2, [3])})
    [1, 2, 3]
    """
    return tree_flatten(tree)[0]


def tree_map(f, tree, *rest):
    """The value with f(leaf, ...) in the place of every leaf; the others must have the same structure.

    >>> hd.tree_map(lambda x, y: x + y, {"a": 1, "b": (2, 3)}, {"a": 10, "b": (20, 30)})
    {'a': 11, 'b': (22, 33)}
    """
    leaves, structure = tree_flatten(tree)
    columns = [leaves]
    for other in rest:
        other_leaves, other_structure = tree_flatten(other)
        if other_structure != structure:
            raise ValueError(f"tree_map: {other_structure} is another structure than {structure}")
        columns.append(other_leaves)
    return tree_unflatten(structure, [f(*row) for row in zip(*columns)])


def _tensors(op, tree):
    """The leaves as tensors: numbers become tensors too."""
    leaves, structure = tree_flatten(tree)
    for leaf in leaves:
        if isinstance(leaf, str):
            raise TypeError(f"{op}: expected tensors or numbers, not str")
    return [_core.as_tensor(leaf) for leaf in leaves], structure


def _split(op, args, argnums):
    """The arguments to look at, and a function that puts others in their places."""
    single = isinstance(argnums, int)
    numbers = [argnums] if single else list(argnums)
    for i, number in enumerate(numbers):
        if not -len(args) <= number < len(args):
            raise ValueError(f"{op}: argnums is {argnums}, but there are {len(args)} arguments")
        numbers[i] = number % len(args)

    def put(chosen):
        changed = list(args)
        for number, value in zip(numbers, (chosen,) if single else chosen):
            changed[number] = value
        return changed

    chosen = args[numbers[0]] if single else tuple(args[number] for number in numbers)
    return chosen, put


def _differentiated(op, f, argnums, has_aux, args, kwargs):
    chosen, put = _split(op, args, argnums)
    tensors, structure = _tensors(op, chosen)
    aux = None

    def flat(x):
        nonlocal aux
        result = f(*put(tree_unflatten(structure, x)), **kwargs)
        if has_aux:
            result, aux = result
        return [result]

    value, gradients = _core._differentiate(op, flat, tensors)
    gradients = tree_unflatten(structure, gradients)
    return ((value, aux) if has_aux else value), gradients, aux


def grad(f, params=None, *, argnums=0, has_aux=False, allow_unused=False, cotangent=None):
    """Gradients.

    grad(loss, params): of a tensor of one element, with respect to tensors in any nesting that it was computed from.
    They asked for gradients (`requires_grad`) before. grad(f): the function that gives the gradient of f with respect
    to its argument number `argnums`, or to several; with `has_aux` f gives (value, rest), and the result is
    (gradient, rest).

    >>> w = hd.tensor([1.0, 2.0], requires_grad=True)
    >>> print(hd.grad((w * w).sum(), w))
    [2. 4.]
    >>> def loss(p, x):
    ...     return ((p["w"] * x).sum() + p["b"]) ** 2
    >>> g = hd.grad(loss)({"w": hd.tensor([1.0, 2.0]), "b": 1.0}, hd.ones(2))
    >>> g["w"].tolist(), g["b"].item()
    ([8.0, 8.0], 8.0)
    """
    if isinstance(f, Tensor):
        if params is None:
            raise TypeError("grad: of a tensor needs the tensors to differentiate with respect to")
        if not isinstance(params, (Tensor, tuple, list, dict)) and hasattr(params, "__iter__"):
            params = list(params)
        leaves, structure = tree_flatten(params)
        return tree_unflatten(structure, _core._gradients(f, leaves, allow_unused, cotangent))
    if not callable(f):
        raise TypeError(f"grad: expected a tensor or a function, not {type(f).__name__}")

    @functools.wraps(f)
    def run(*args, **kwargs):
        _, gradients, aux = _differentiated("grad", f, argnums, has_aux, args, kwargs)
        return (gradients, aux) if has_aux else gradients

    return run


def value_and_grad(f, argnums=0, has_aux=False):
    """The function that gives f's value and its gradient.

    >>> value, g = hd.value_and_grad(lambda x: (x * x).sum())(hd.tensor([3.0]))
    >>> value.item(), g.item()
    (9.0, 6.0)
    """

    @functools.wraps(f)
    def run(*args, **kwargs):
        value, gradients, _ = _differentiated("value_and_grad", f, argnums, has_aux, args, kwargs)
        return value, gradients

    return run


class no_grad(contextlib.ContextDecorator):
    """Inside, what operators give is a constant for gradients: `with hd.no_grad():` or `@hd.no_grad()`.

    >>> w = hd.ones(2, requires_grad=True)
    >>> with hd.no_grad():
    ...     y = w * 2
    >>> y.requires_grad
    False
    """

    def __enter__(self):
        self._before = [*getattr(self, "_before", []), _core._set_grad_enabled(False)]
        return self

    def __exit__(self, *error):
        _core._set_grad_enabled(self._before.pop())


def _flat_function(f, structure):
    """f as a function of a list of tensors, and a list that receives the structure of its result."""
    seen = []

    def flat(x):
        leaves, result = tree_flatten(f(*tree_unflatten(structure, x)))
        seen[:] = [result]
        return [_core.as_tensor(leaf) for leaf in leaves]

    return flat, seen


def vjp(f, *primals):
    """f(*primals), and a function from a gradient of the result to those of the primals, a tuple.

    >>> y, pull = hd.vjp(lambda x: x * x, hd.tensor([1.0, 2.0]))
    >>> pull(hd.tensor([1.0, 10.0]))
    (tensor([ 2., 40.]),)
    """
    tensors, structure = _tensors("vjp", primals)
    flat, seen = _flat_function(f, structure)
    recorded = _core._record(flat, tensors)

    def pull(cotangent):
        leaves, given = _tensors("vjp", cotangent)
        if given != seen[0]:
            raise ValueError(f"vjp: a gradient of structure {given} for a result of structure {seen[0]}")
        return tree_unflatten(structure, recorded.pull_back(leaves))

    return tree_unflatten(seen[0], recorded.values), pull


def jvp(f, primals, tangents):
    """f(*primals), and how it changes when the primals change by the tangents.

    >>> y, change = hd.jvp(lambda x: x * x, [hd.tensor([1.0, 2.0])], [hd.tensor([1.0, 10.0])])
    >>> print(change)
    [ 2. 40.]
    """
    tensors, structure = _tensors("jvp", tuple(primals))
    changes, given = _tensors("jvp", tuple(tangents))
    if given != structure:
        raise ValueError(f"jvp: tangents of structure {given} for primals of structure {structure}")
    flat, seen = _flat_function(f, structure)
    values, pushed = _core._push_forward(flat, tensors, changes)
    return tree_unflatten(seen[0], values), tree_unflatten(seen[0], pushed)


def vmap(f, in_axes=0, out_axes=0):
    """f, a function of one example, as a function of many.

    in_axes: the axis of examples, one for all arguments or one for each; None for an argument that is the same for all
    examples. out_axes: where that axis comes out.

    >>> product = hd.vmap(lambda x, y: x @ y)
    >>> print(product(hd.tensor([[1.0, 2.0], [3.0, 4.0]]), hd.tensor([[1.0, 1.0], [2.0, 0.0]])))
    [3. 6.]
    """

    @functools.wraps(f)
    def run(*args):
        axes = list(in_axes) if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
        if len(axes) != len(args):
            raise ValueError(f"vmap: {len(axes)} in_axes for {len(args)} arguments")
        for axis in axes:
            if axis is not None and not hasattr(axis, "__index__"):
                raise TypeError(f"vmap: in_axes are integers or None, one for each argument, not {axis!r}")
        if not hasattr(out_axes, "__index__"):
            raise TypeError(f"vmap: out_axes is one integer, for all results, not {out_axes!r}")
        leaves, structure = tree_flatten(args)
        of_leaves = [axis for axis, arg in zip(axes, args) for _ in tree_leaves(arg)]
        # Numbers are the same for all examples.
        places = [i for i, leaf in enumerate(leaves) if not isinstance(leaf, (bool, int, float, str))]
        seen = []

        def flat(x):
            inside = list(leaves)
            for place, tensor in zip(places, x):
                inside[place] = tensor
            results, seen[:] = (lambda pair: (pair[0], [pair[1]]))(tree_flatten(f(*tree_unflatten(structure, inside))))
            return [_core.as_tensor(result) for result in results]

        tensors = [_core.as_tensor(leaves[i]) for i in places]
        results = _core._mapped(flat, tensors, [of_leaves[i] for i in places], out_axes)
        return tree_unflatten(seen[0], results)

    return run


def checkpoint(f, *args):
    """f(*args), of which only the arguments are kept for gradients: the rest is computed again.

    >>> x = hd.tensor([0.0], requires_grad=True)
    >>> print(hd.grad(hd.checkpoint(lambda y: hd.exp(hd.sin(y)), x).sum(), x))
    [1.]
    """
    leaves, structure = tree_flatten(args)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    seen = []

    def flat(x):
        inside = list(leaves)
        for place, tensor in zip(places, x):
            inside[place] = tensor
        results, shape = tree_flatten(f(*tree_unflatten(structure, inside)))
        seen[:] = [shape]
        return [_core.as_tensor(result) for result in results]

    results = _core._checkpointed(flat, [leaves[i] for i in places])
    return tree_unflatten(seen[0], results)


def custom_vjp(forward, backward):
    """A function of tensors with a gradient of its own.

    backward(inputs, output, gradient) gets the inputs as a tuple and gives one gradient for each of them.

    >>> clipped = hd.custom_vjp(lambda x: x * 10, lambda inputs, output, gradient: gradient.clamp(-1, 1))
    >>> x = hd.tensor([2.0], requires_grad=True)
    >>> print(hd.grad((clipped(x) * 3).sum(), x))
    [1.]
    """

    @functools.wraps(forward)
    def run(*args):
        def pull(inputs, output, gradient):
            result = backward(inputs, output, gradient)
            return [result] if isinstance(result, Tensor) else list(result)

        return _core._custom_vjp(lambda inputs: forward(*inputs), pull, args)

    return run


def jit(f=None):
    """A function that is recorded, compiled as a whole, and replayed from then on.

    Arguments and results may be nested. Tensors and arrays among them are data; everything else (numbers, texts,
    modules) is part of what is compiled: there is one plan for each combination. Tensors that the function closes over
    are read anew, and those that it changes are changed, at each call. Python code inside runs while recording only.

    >>> @hd.jit
    ... def normed(x):
    ...     return (x - x.mean()) / x.std()
    >>> print(normed(hd.tensor([1.0, 2.0, 3.0])))
    [-1.  0.  1.]
    >>> len(normed.plans())
    1
    """
    if f is None:
        return jit
    if not callable(f):
        raise TypeError(f"jit: expected a function, not {type(f).__name__}")
    code = getattr(f, "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}" if code else getattr(f, "__name__", type(f).__name__)
    return functools.update_wrapper(_core.Captured(f, place), f, updated=())


def _deepcopied(self, memo):
    """Of a method of an object that is copied too: a captured function of the copy. Others have nothing to copy."""
    f = self.__wrapped__
    if getattr(f, "__self__", None) is None:
        return self
    copied = memo[id(self)] = jit(copy.deepcopy(f, memo))
    return copied


_core.Captured.__deepcopy__ = _deepcopied


def jacobian(f, x=None):
    """The derivatives of all elements of f(x) by all elements of x, or without x the function that gives them.

    >>> print(hd.jacobian(lambda x: x * x, hd.tensor([1.0, 2.0])))
    [[2. 0.]
     [0. 4.]]
    """
    return functools.partial(jacobian, f) if x is None else _core.jacobian(f, x)


def hessian(f, x=None):
    """The second derivatives of f, which gives one element, or without x the function that gives them.

    >>> print(hd.hessian(lambda x: (x * x * x).sum(), hd.tensor([1.0, 2.0])))
    [[ 6.  0.]
     [ 0. 12.]]
    """
    return functools.partial(hessian, f) if x is None else _core.hessian(f, x)
