from .gpt2 import (
    GPT2 as GPT2,
    GPT2Config as GPT2Config,
    gpt2_large as gpt2_large,
    gpt2_medium as gpt2_medium,
    gpt2_small as gpt2_small,
    gpt2_tiny as gpt2_tiny,
    gpt2_xl as gpt2_xl,
)
from .resnet import (
    ResNet as ResNet,
    ResNetConfig as ResNetConfig,
    resnet18 as resnet18,
    resnet34 as resnet34,
    resnet50 as resnet50,
)
