"""Second-order and attention blocks for use inside backbones, one file each. `covpool.insert` puts them there."""

from covpool.blocks.cbam import ConvolutionalAttention
from covpool.blocks.fb import FactorizedBilinear
from covpool.blocks.se import SqueezeExcitation
from covpool.blocks.sort import SecondOrderResponse, second_order_response

__all__ = [
    "ConvolutionalAttention",
    "FactorizedBilinear",
    "SecondOrderResponse",
    "SqueezeExcitation",
    "second_order_response",
]
