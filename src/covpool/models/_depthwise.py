"""Depthwise convolutions whose kernels need not be compiled in every process, for training and inference on a GPU."""

from typing import cast

from torch import Tensor, nn

from covpool.ops import depthwise_convolution


class DepthwiseConv2d(nn.Conv2d):
    """A convolution that filters each channel by itself. It has the parameters and the state of a `nn.Conv2d`."""

    def forward(self, x: Tensor) -> Tensor:
        """The filtered map (b, c, h, w)."""
        if x.ndim != 4:
            return super().forward(x)
        stride, padding, dilation = cast(tuple[tuple[int, int], ...], (self.stride, self.padding, self.dilation))
        return depthwise_convolution(x, self.weight, stride=stride, padding=padding, dilation=dilation)


def replace_depthwise(network: nn.Module) -> None:
    """Let the depthwise convolutions of a network use covpool's operation.

    Modules keep their names, parameters and state. Convolutions with a bias, with padding other than zeros, and of
    derived classes stay as they are.

    Args:
        network: The network, changed in place.

    >>> network = nn.Sequential(nn.Conv2d(8, 8, 3, groups=8, bias=False), nn.Conv2d(8, 8, 3, bias=False))
    >>> replace_depthwise(network)
    >>> [type(module).__name__ for module in network]
    ['DepthwiseConv2d', 'Conv2d']
    """
    for module in network.modules():
        if type(module) is nn.Conv2d and _is_depthwise(module):
            module.__class__ = DepthwiseConv2d


def _is_depthwise(module: nn.Conv2d) -> bool:
    return (
        module.groups == module.in_channels == module.out_channels > 1
        and module.bias is None
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
    )
