"""Networks: any backbone with any pool, and the paper's networks by name."""

from covpool.models.attach import attach
from covpool.models.cost import Cost, cost
from covpool.models.efficiency import Efficiency, efficiency
from covpool.models.insert import BlockInfo, block_info, insert, list_blocks
from covpool.models.last_stride import LastStrideKept
from covpool.models.network import Network
from covpool.models.networks import create_model, list_models
from covpool.models.rebuild import rebuild

__all__ = [
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
    "insert",
    "list_blocks",
    "list_models",
    "rebuild",
]
