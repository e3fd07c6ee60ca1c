"""covpool: global covariance (second-order) pooling for PyTorch."""

from covpool import diagnostics, ops, pools
from covpool._registry import PoolInfo, create_pool, list_pools, pool_info, register, unregister
from covpool.pools import Pool

__version__ = "0.1.0"

__all__ = [
    "Pool",
    "PoolInfo",
    "create_pool",
    "diagnostics",
    "list_pools",
    "ops",
    "pool_info",
    "pools",
    "register",
    "unregister",
]
