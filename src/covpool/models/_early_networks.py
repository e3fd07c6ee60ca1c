"""AlexNet, VGG-F and VGG-M up to their last pooling: networks of the paper that torchvision and timm do not have."""

from collections import OrderedDict
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Conv:
    """A convolution, batch norm and ReLU, followed by a 3x3 max-pooling of stride 2 if `pool` is set."""

    width: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    pool: bool = False


TABLES: dict[str, tuple[Conv, ...]] = {
    "alexnet": (
        Conv(96, 11, stride=4, pool=True),
        Conv(256, 5, padding=2, groups=2, pool=True),
        Conv(384, 3, padding=1),
        Conv(384, 3, padding=1, groups=2),
        Conv(256, 3, padding=1, groups=2, pool=True),
    ),
    "vgg_f": (
        Conv(64, 11, stride=4, pool=True),
        Conv(256, 5, padding=2, pool=True),
        Conv(256, 3, padding=1),
        Conv(256, 3, padding=1),
        Conv(256, 3, padding=1, pool=True),
    ),
    "vgg_m": (
        Conv(96, 7, stride=2, pool=True),
        Conv(256, 5, stride=2, padding=1, pool=True),
        Conv(512, 3, padding=1),
        Conv(512, 3, padding=1),
        Conv(512, 3, padding=1, pool=True),
    ),
}


def early_features(name: str) -> nn.Sequential:
    """The convolutional part of a network, with batch norm in place of local response normalization as in the paper.

    Poolings round sizes up, as in Caffe, for which VGG-F and VGG-M were made: all three end in a 6x6 map.

    Args:
        name: "alexnet", "vgg_f" or "vgg_m".

    Reference: AlexNet with its two groups: Krizhevsky et al., NIPS 2012; VGG-F and VGG-M: Chatfield et al., BMVC 2014.

    >>> import torch
    >>> early_features("alexnet")(torch.randn(1, 3, 227, 227)).shape
    torch.Size([1, 256, 6, 6])
    """
    modules: OrderedDict[str, nn.Module] = OrderedDict()
    channels = 3
    for i, layer in enumerate(TABLES[name], start=1):
        modules[f"conv{i}"] = convolution = nn.Conv2d(
            channels, layer.width, layer.kernel, layer.stride, layer.padding, groups=layer.groups, bias=False
        )
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
        modules[f"bn{i}"] = nn.BatchNorm2d(layer.width)
        modules[f"relu{i}"] = nn.ReLU(inplace=True)
        if layer.pool:
            modules[f"pool{i}"] = nn.MaxPool2d(3, 2, ceil_mode=True)
        channels = layer.width
    return nn.Sequential(modules)
