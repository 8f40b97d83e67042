"""Random numbers. Every random tensor takes the next key of a generator: the default one, or `generator=`."""

from . import _core

__all__ = (
    "Generator bernoulli beta categorical default_generator dropout exponential gamma manual_seed multinomial normal "
    "permutation rand rand_like randint randn randn_like randperm shuffle truncated_normal uniform"
).split()

globals().update({name: getattr(_core, name) for name in __all__})
