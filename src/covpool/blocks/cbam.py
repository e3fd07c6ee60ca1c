"""CBAM: one factor per channel, then one per position."""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from covpool.blocks.se import gate_layers

MOMENTUM = 0.01  # of the batch norm of the spatial gate, as released


class ChannelAttention(nn.Module):
    """y = sigmoid(MLP(mean(x)) + MLP(max(x))) x, one factor per channel; see `ConvolutionalAttention`.

    Weights start as torch draws them and biases at zero, as released.
    """

    def __init__(self, channels: int, *, reduction: int = 16) -> None:
        super().__init__()
        self.fc1, self.fc2 = gate_layers(channels, reduction)

    def forward(self, x: Tensor) -> Tensor:
        mean, peak = x.mean((2, 3), keepdim=True), x.amax((2, 3), keepdim=True)
        scores: Tensor = self.fc2(self.fc1(mean).relu()) + self.fc2(self.fc1(peak).relu())
        return x * scores.sigmoid()


class SpatialAttention(nn.Module):
    """y = sigmoid(BN(conv7x7([mean over channels, max over channels]))) x, one factor per position.

    The weight of the batch norm starts at zero, so that every position begins with the factor 1/2.
    """

    def __init__(self) -> None:
        super().__init__()
        convolution = nn.Conv2d(2, 1, 7, padding=3, bias=False)
        norm = nn.BatchNorm2d(1, momentum=MOMENTUM)
        nn.init.kaiming_normal_(convolution.weight, mode="fan_out")
        nn.init.zeros_(norm.weight)
        self.conv = nn.Sequential(OrderedDict(conv=convolution, bn=norm))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.conv(torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1))
        return x * scores.sigmoid()


class ConvolutionalAttention(nn.Sequential):
    """CBAM: `ChannelAttention`, then `SpatialAttention`.

    Args:
        channels: Channels c of the map.
        reduction: The MLP has c // reduction hidden units.

    Shape: (b, c, h, w) -> (b, c, h, w).

    Reference: Woo et al., CBAM: Convolutional Block Attention Module, ECCV 2018.

    >>> sum(p.numel() for p in ConvolutionalAttention(256).parameters())  # those of SE and 98 + 2
    8564
    """

    channel: ChannelAttention
    spatial: SpatialAttention

    def __init__(self, channels: int, *, reduction: int = 16) -> None:
        super().__init__(
            OrderedDict[str, nn.Module](
                channel=ChannelAttention(channels, reduction=reduction), spatial=SpatialAttention()
            )
        )
