"""covpool: global covariance (second-order) pooling for PyTorch."""

from covpool import diagnostics, io, models, ops, pools
from covpool._registry import PoolInfo, create_pool, list_pools, pool_info, register, unregister
from covpool.io import import_checkpoint, load, save
from covpool.models import Network, attach, create_model, list_models
from covpool.pools import Pool

__version__ = "0.1.0"

__all__ = [
    "Network",
    "Pool",
    "PoolInfo",
    "attach",
    "create_model",
    "create_pool",
    "diagnostics",
    "import_checkpoint",
    "io",
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
