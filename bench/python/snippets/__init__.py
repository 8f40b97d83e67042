"""Forty things that people write with arrays, each as they write it in Heddle, PyTorch, JAX and NumPy.

The sizes were fixed before anything was measured. A version of None is one that the library has no way to write.
"""

from . import arrays, learning, linear, science
from .snippet import Snippet

ALL = [
    each()
    for module in (science, learning, linear, arrays)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Snippet) and each is not Snippet
]
assert len(ALL) == 40
