"""covpool: global covariance (second-order) pooling for PyTorch."""

from covpool import blocks, diagnostics, io, models, ops, pools
from covpool._registry import PoolInfo, create_pool, list_pools, pool_info, register, unregister
from covpool.io import import_checkpoint, load, save
from covpool.models import BlockInfo, Network, attach, block_info, create_model, insert, list_blocks, list_models
from covpool.pools import Pool

__version__ = "0.1.0"

__all__ = [
    "BlockInfo",
    "Network",
    "Pool",
    "PoolInfo",
    "attach",
    "block_info",
    "blocks",
    "create_model",
    "create_pool",
    "diagnostics",
    "import_checkpoint",
    "insert",
    "io",
    "list_blocks",
    "list_models",
    "list_pools",
    "load",
    "models",
    "ops",
    "pool_info",
    "pools",
    "register",
    "save",
    "unregister",
]
