"""The libraries by their usual names. A process imports the one that HEDDLE_SNIPPETS_OF names, and NumPy."""

import importlib
import os

import numpy as np  # noqa: F401

_WANTED = os.environ.get("HEDDLE_SNIPPETS_OF", "numpy")


def _library(name, owner):
    return importlib.import_module(name) if _WANTED == owner else None


hd = _library("heddle", "heddle")
torch = _library("torch", "torch")
F = _library("torch.nn.functional", "torch")
jax = _library("jax", "jax")
jnp = _library("jax.numpy", "jax")
special = _library("scipy.special", "numpy")
