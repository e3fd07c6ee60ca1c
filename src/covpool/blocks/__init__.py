"""Local second-order blocks for insertion inside backbones, one file each. `covpool.insert` puts them there."""

from covpool.blocks.fb import FactorizedBilinear
from covpool.blocks.sort import SecondOrderResponse, second_order_response

__all__ = ["FactorizedBilinear", "SecondOrderResponse", "second_order_response"]
