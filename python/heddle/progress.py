"""A line that says how far a loop is."""

from . import _core


class progress:
    """Walks over a range, or counts to a number, and shows how far it is.

    >>> bar = hd.progress([1, 2, 3], label="sums")
    >>> for x in bar:
    ...     bar.set("x", x)
    >>> len(bar)
    3
    """

    def __init__(self, iterable, label="", total=None):
        self._iterable = range(iterable) if isinstance(iterable, int) else iterable
        self._label = label
        if total is None and hasattr(self._iterable, "__len__"):
            total = len(self._iterable)
        self._total = total
        self._line = None

    def __len__(self):
        if self._total is None:
            raise TypeError("progress: nobody knows how long this is")
        return self._total

    def __iter__(self):
        self._line = _core._ProgressLine(self._label, self._total)
        try:
            for item in self._iterable:
                yield item
                self._line.advance()
        finally:
            self._line.finish()

    def set(self, name, value):
        """Shows a number, a text or a tensor of one element at the end of the line."""
        if self._line is not None:
            self._line.set(name, value)
