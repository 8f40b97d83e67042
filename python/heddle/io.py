"""Tensors in files: the safetensors format, and checkpoints of a whole training."""

from ._core import load_safetensors, safetensors_metadata, save_safetensors
from .optim import load_checkpoint, save_checkpoint

__all__ = ["load_checkpoint", "load_safetensors", "safetensors_metadata", "save_checkpoint", "save_safetensors"]
