"""Networks: any backbone with any pool, and the paper's networks by name."""

from covpool.models._attach import attach
from covpool.models._backbone import Backbone
from covpool.models._cost import Cost, cost
from covpool.models._efficiency import Efficiency, efficiency
from covpool.models._head import last_linear, make_head
from covpool.models._insert import BlockInfo, block_info, insert, list_blocks
from covpool.models._last_stride import LastStrideKept
from covpool.models._network import Network
from covpool.models._networks import BASES, FLATTEN, POOLS, create_model, list_models, pool_of, representation_of
from covpool.models._rebuild import rebuild
from covpool.models._weights import fill

__all__ = [
    "BASES",
    "FLATTEN",
    "POOLS",
    "Backbone",
    "BlockInfo",
    "Cost",
    "Efficiency",
    "LastStrideKept",
    "Network",
    "attach",
    "block_info",
    "cost",
    "create_model",
    "efficiency",
    "fill",
    "insert",
    "last_linear",
    "list_blocks",
    "list_models",
    "make_head",
    "pool_of",
    "rebuild",
    "representation_of",
]
