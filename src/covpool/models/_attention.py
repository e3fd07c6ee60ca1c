"""Attention gates after a residual branch, as published: timm's layers with the published sizes and initialisation."""

from torch import nn

from covpool._check import check_positive_int, require
from covpool._errors import CovpoolError

CBAM_MOMENTUM = 0.01  # of the batch norm in CBAM's spatial gate, as released


def squeeze_excitation(channels: int, *, reduction: int = 16) -> nn.Module:
    """SE: y = s x, one factor per channel, s = sigmoid(W2 relu(W1 mean(x) + b1) + b2).

    Args:
        channels: of the map.
        reduction: W1 leads to channels // reduction.

    Shape: (b, c, h, w) -> the same.

    Reference: Hu et al., Squeeze-and-Excitation Networks, CVPR 2018.

    >>> sum(p.numel() for p in squeeze_excitation(256).parameters())  # 2 c^2 / r + c / r + c
    8464
    """
    gate: nn.Module = require("timm.layers", "models").SqueezeExcite(channels, rd_channels=_hidden(channels, reduction))
    for layer in gate.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            _zero_bias(layer)
    return gate


def cbam(channels: int, *, reduction: int = 16) -> nn.Module:
    """CBAM: a factor per channel, sigmoid(MLP(mean(x)) + MLP(max(x))), then one per position,
    sigmoid(BN(conv7x7([mean over channels, max over channels]))).

    The weight of that BN starts at zero, so that every position begins with the factor 1/2.

    Args:
        channels: of the map.
        reduction: the MLP has channels // reduction hidden units.

    Shape: (b, c, h, w) -> the same.

    Reference: Woo et al., CBAM: Convolutional Block Attention Module, ECCV 2018.

    >>> sum(p.numel() for p in cbam(256).parameters())  # SE's and 98 + 2
    8564
    """
    module = require("timm.layers.cbam", "models").CbamModule
    gate: nn.Module = module(channels, rd_channels=_hidden(channels, reduction), mlp_bias=True)
    for layer in gate.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = CBAM_MOMENTUM
            nn.init.zeros_(layer.weight)
        elif isinstance(layer, nn.Conv2d) and layer.kernel_size != (1, 1):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out")
        elif isinstance(layer, nn.Conv2d):
            _zero_bias(layer)  # the MLP keeps torch's own weights, as released
    return gate


def _hidden(channels: int, reduction: int) -> int:
    check_positive_int("reduction", reduction)
    if reduction > channels:
        raise CovpoolError(
            f"`reduction` = {reduction} leaves nothing of {channels} channels: choose at most {channels}"
        )
    return channels // reduction


def _zero_bias(layer: nn.Conv2d) -> None:
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
