"""ResNet. Names of tensors are torchvision's: "conv1.weight", "layer1.0.bn2.running_mean", "fc.bias"."""

from collections import namedtuple

from .. import _core, nn

_EXPANSION = 4  # outputs of a bottleneck, in widths


class ResNetConfig(
    namedtuple(
        "ResNetConfig",
        "blocks bottleneck classes inputs width dtype",
        defaults=((2, 2, 2, 2), False, 1000, 3, 64, "float32"),
    )
):
    """Sizes of a ResNet: blocks in each of the four stages, whether they are of three convolutions, classes, channels of
    images and of the first layers.

    >>> hd.models.ResNetConfig(classes=10).blocks
    (2, 2, 2, 2)
    """

    __slots__ = ()


def resnet18():
    """18 layers.

    >>> hd.models.resnet18().blocks
    (2, 2, 2, 2)
    """
    return ResNetConfig()


def resnet34():
    """34 layers.

    >>> hd.models.resnet34().blocks
    (3, 4, 6, 3)
    """
    return ResNetConfig(blocks=(3, 4, 6, 3))


def resnet50():
    """50 layers, in blocks of three convolutions.

    >>> hd.models.resnet50().bottleneck
    True
    """
    return ResNetConfig(blocks=(3, 4, 6, 3), bottleneck=True)


def _conv(inputs, outputs, kernel, stride, config):
    own = _core.Generator()  # first values come later, of all parts at once
    settings = dict(padding=kernel // 2, bias=False, dtype=config.dtype, generator=own)
    return nn.Conv2d(inputs, outputs, kernel, stride, **settings)


def _outputs(width, config):
    return _EXPANSION * width if config.bottleneck else width


class _Block(nn.Module):
    """Two convolutions, or three with narrow ones between: relu(x + f(x))."""

    def __init__(self, inputs, width, stride, config):
        super().__init__()
        narrow = config.bottleneck
        self.conv1 = _conv(inputs, width, 1 if narrow else 3, 1 if narrow else stride, config)
        self.bn1 = nn.BatchNorm2d(width, dtype=config.dtype)
        self.conv2 = _conv(width, width, 3, stride if narrow else 1, config)
        self.bn2 = nn.BatchNorm2d(width, dtype=config.dtype)
        outputs = _outputs(width, config)
        self.conv3 = _conv(width, outputs, 1, 1, config) if narrow else None
        self.bn3 = nn.BatchNorm2d(outputs, dtype=config.dtype) if narrow else None
        other = stride != 1 or inputs != outputs
        norm = nn.BatchNorm2d(outputs, dtype=config.dtype)
        self.downsample = nn.Sequential(_conv(inputs, outputs, 1, stride, config), norm) if other else None

    def forward(self, x):
        y = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        if self.conv3 is not None:
            y = self.bn3(self.conv3(y.relu()))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class ResNet(nn.Module):
    """Images [batch, inputs, height, width] to logits [batch, classes].

    >>> net = hd.models.ResNet(hd.models.ResNetConfig(blocks=(1, 1, 1, 1), width=8, classes=10)).eval()
    >>> net(hd.zeros(1, 3, 32, 32)).shape
    (1, 10)
    """

    def __init__(self, config=None, generator=None):
        super().__init__()
        config = config or resnet18()
        if len(config.blocks) != 4:
            raise _core.ValueError(f"ResNet: {len(config.blocks)} numbers of blocks; there are four stages")
        self.conv1 = _conv(config.inputs, config.width, 7, 2, config)
        self.bn1 = nn.BatchNorm2d(config.width, dtype=config.dtype)
        width = inputs = config.width
        for i, count in enumerate(config.blocks):
            stride = 1 if i == 0 else 2
            blocks = []
            for j in range(count):
                blocks.append(_Block(inputs, width, stride if j == 0 else 1, config))
                inputs = _outputs(width, config)
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
            width *= 2
        self.fc = nn.Linear(inputs, config.classes, dtype=config.dtype, generator=_core.Generator())
        sizes = (config.classes, config.inputs, config.width)
        state = _core._resnet_state(list(config.blocks), config.bottleneck, *sizes, config.dtype, generator)
        self.load_state_dict(state)

    def forward(self, images):
        x = _core.max_pool2d(self.bn1(self.conv1(images)).relu(), 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean((2, 3)))
