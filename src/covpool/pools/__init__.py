"""The pooling methods, one file each. Every module of this package is imported, so a new file registers itself."""

import importlib
import pkgutil
from typing import Any

from covpool._registry import (
    PoolInfo,
    create_pool,
    list_pools,
    load_plugins,
    option_types,
    pool_info,
    pool_name,
    register,
    registered_classes,
    unregister,
    without_plugins,
)
from covpool.pools.base import Layout, Pool

__all__ = [
    "Layout",
    "Pool",
    "PoolInfo",
    "create_pool",
    "list_pools",
    "load_plugins",
    "option_types",
    "pool_info",
    "pool_name",
    "register",
    "unregister",
    "without_plugins",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def __getattr__(name: str) -> Any:
    """Return the class of a registered pool, such as `covpool.pools.GaussianPool`."""
    for cls in registered_classes():
        if cls.__name__ == name:
            return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
