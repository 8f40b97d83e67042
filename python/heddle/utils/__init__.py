"""Where PyTorch has them."""

from . import data  # noqa: F401
