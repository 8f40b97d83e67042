from typing import NamedTuple

from .. import nn
from .._core import Generator, Tensor, _DTypeLike

class GPT2Config(NamedTuple):
    vocabulary: int = 50257
    context: int = 1024
    width: int = 768
    layers: int = 12
    heads: int = 12
    dropout: float = 0.0
    dtype: _DTypeLike = "float32"

def gpt2_tiny() -> GPT2Config: ...
def gpt2_small() -> GPT2Config: ...
def gpt2_medium() -> GPT2Config: ...
def gpt2_large() -> GPT2Config: ...
def gpt2_xl() -> GPT2Config: ...

class GPT2(nn.Module):
    config: GPT2Config
    wte: nn.Embedding
    wpe: nn.Embedding
    dropout: nn.Dropout
    h: nn.ModuleList[nn.Module]
    ln_f: nn.LayerNorm
    def __init__(self, config: GPT2Config | None = None, generator: Generator | None = None) -> None: ...
    def forward(self, ids: Tensor) -> Tensor: ...
    def __call__(self, ids: Tensor) -> Tensor: ...
    def loss(self, ids: Tensor, targets: Tensor) -> Tensor: ...
