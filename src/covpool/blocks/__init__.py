"""Second-order and attention blocks for use inside backbones, one file each. `covpool.insert` puts them there."""

from covpool.blocks.cbam import ConvolutionalAttention as ConvolutionalAttention
from covpool.blocks.fb import FactorizedBilinear as FactorizedBilinear
from covpool.blocks.se import SqueezeExcitation as SqueezeExcitation
from covpool.blocks.sort import SecondOrderResponse as SecondOrderResponse
from covpool.blocks.sort import second_order_response as second_order_response
