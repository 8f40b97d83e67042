from ._core import (
    load_safetensors as load_safetensors,
    safetensors_metadata as safetensors_metadata,
    save_safetensors as save_safetensors,
)
from .optim import load_checkpoint as load_checkpoint, save_checkpoint as save_checkpoint
