"""Graphs of tensors: what will be computed, as text, as Graphviz's dot, and as a picture in notebooks."""

import collections
import re

from . import _core
from ._core import Tensor
from .transforms import tree_leaves

_LINE = re.compile(
    r"^(?P<margin> *)%(?P<number>\d+) = (?P<op>\S+) (?P<dtype>\w+)\[(?P<shape>[^\]]*)\]"
    r"(?P<inputs>(?:,? %\d+)*) ?(?P<attributes>.*)$"
)


class Node(collections.namedtuple("Node", "number op dtype shape inputs attributes body")):
    """One operation on whole tensors. `inputs` are numbers of nodes before it; `body` is what a loop or a condition
    runs, as text.

    >>> hd.graph(hd.tensor([1.0, 2.0]).realize() * 3).nodes[-1]
    Node(number=2, op='mul', dtype='f32', shape='2', inputs=[0, 1], attributes='', body='')
    """

    __slots__ = ()


class Graph:
    """The graph behind tensors. Printed it is text; a notebook shows a picture. graph() makes it.

    >>> g = hd.graph(hd.tensor([1.0, 2.0]).exp().sum())
    >>> len(g), [node.op for node in g.nodes]
    (3, ['buffer', 'exp', 'sum'])
    >>> print(g)
    %0 = buffer f32[2] {1, 2}
    %1 = exp f32[2] %0
    %2 = sum f32[] %1 axes=[0]
    return %2
    """

    def __init__(self, tensors):
        tensors = list(tensors)
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise TypeError(f"graph: expected tensors, not {type(tensor).__name__}")
        self._text, self._dot = _core._print_graph(tensors), _core._print_dot(tensors)
        self.nodes, self.results = [], []
        for line in self._text.splitlines():
            match = _LINE.match(line)
            if line.startswith("return"):
                self.results = [int(number) for number in re.findall(r"%(\d+)", line)]
            elif match and not match["margin"]:
                inputs = [int(number) for number in re.findall(r"%(\d+)", match["inputs"])]
                values = (match["op"], match["dtype"], match["shape"], inputs, match["attributes"])
                self.nodes.append(Node(int(match["number"]), *values, ""))
            else:
                last = self.nodes[-1]
                self.nodes[-1] = last._replace(body=last.body + line + "\n")

    def __len__(self):
        return len(self.nodes)

    def __str__(self):
        return self._text.rstrip("\n")

    __repr__ = __str__

    def dot(self):
        """The same in the language of Graphviz.

        >>> hd.graph(hd.ones(3).exp()).dot().splitlines()[0]
        'digraph graph_of_tensors {'
        """
        return self._dot

    def svg(self, most=150):
        """A picture. Of more than `most` nodes those next to the results.

        >>> hd.graph(hd.ones(3).exp()).svg().startswith("<svg")
        True
        """
        from . import _draw

        return _draw.graph_svg(self, most)

    def _repr_svg_(self):
        return self.svg()


def graph(what, *args, **kwargs):
    """The graph behind tensors in any nesting, or behind what a function gives for these arguments.

    Nothing is computed. A function is called as it is, captured or not, so it must not change tensors.

    >>> x = hd.tensor([1.0, 2.0])
    >>> len(hd.graph(x * 2 + 1))
    5
    >>> print(hd.graph(lambda x: x + x, x))
    %0 = buffer f32[2] {1, 2}
    %1 = add f32[2] %0, %0
    return %1
    """
    if callable(what) and not isinstance(what, Tensor):
        what = getattr(what, "__wrapped__", what) if isinstance(what, _core.Captured) else what
        return Graph(tree_leaves(what(*args, **kwargs)))
    return Graph(tree_leaves((what, *args)))
