"""Models with the names of published files: GPT-2 and ResNet."""

from .gpt2 import GPT2, GPT2Config, gpt2_large, gpt2_medium, gpt2_small, gpt2_tiny, gpt2_xl
from .resnet import ResNet, ResNetConfig, resnet18, resnet34, resnet50
