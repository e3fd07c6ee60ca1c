"""covpool: global covariance (second-order) pooling for PyTorch."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from covpool import blocks, diagnostics, io, models, ops, pools
    from covpool._errors import CovpoolError
    from covpool.io import import_checkpoint, load, save
    from covpool.models import (
        BlockInfo,
        Network,
        attach,
        block_info,
        create_model,
        insert,
        list_blocks,
        list_models,
    )
    from covpool.pools import Pool, PoolInfo, create_pool, list_pools, pool_info, register, unregister

__version__ = "0.2.0"

# A public name is imported when it is first used, so that `import covpool` and `covpool --help` do not wait for torch.
_MODULES = ("blocks", "diagnostics", "io", "models", "ops", "pools")
_NAMES = {
    "covpool._errors": ("CovpoolError",),
    "covpool.io": ("import_checkpoint", "load", "save"),
    "covpool.models": (
        *("BlockInfo", "Network", "attach", "block_info", "create_model", "insert", "list_blocks", "list_models"),
    ),
    "covpool.pools": ("Pool", "PoolInfo", "create_pool", "list_pools", "pool_info", "register", "unregister"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}

__all__ = [
    "BlockInfo",
    "CovpoolError",
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


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"covpool.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'covpool' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
