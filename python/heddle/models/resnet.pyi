from collections.abc import Sequence
from typing import NamedTuple

from .. import nn
from .._core import Generator, Tensor, _DTypeLike

class ResNetConfig(NamedTuple):
    blocks: Sequence[int] = (2, 2, 2, 2)
    bottleneck: bool = False
    classes: int = 1000
    inputs: int = 3
    width: int = 64
    dtype: _DTypeLike = "float32"

def resnet18() -> ResNetConfig: ...
def resnet34() -> ResNetConfig: ...
def resnet50() -> ResNetConfig: ...

class ResNet(nn.Module):
    conv1: nn.Conv2d
    bn1: nn.BatchNorm2d
    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential
    fc: nn.Linear
    def __init__(self, config: ResNetConfig | None = None, generator: Generator | None = None) -> None: ...
    def forward(self, images: Tensor) -> Tensor: ...
    def __call__(self, images: Tensor) -> Tensor: ...
