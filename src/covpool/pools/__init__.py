"""The pooling methods, one file each. Every module of this package is imported, so a new file registers itself."""

import importlib
import pkgutil
from typing import Any

from covpool._registry import PoolInfo as PoolInfo
from covpool._registry import create_pool as create_pool
from covpool._registry import list_pools as list_pools
from covpool._registry import load_plugins as load_plugins
from covpool._registry import option_types as option_types
from covpool._registry import pool_info as pool_info
from covpool._registry import pool_name as pool_name
from covpool._registry import register as register
from covpool._registry import registered_classes
from covpool._registry import unregister as unregister
from covpool._registry import without_plugins as without_plugins
from covpool.pools.base import Layout as Layout
from covpool.pools.base import Pool as Pool
from covpool.pools.base import PositiveInt as PositiveInt

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")


def __getattr__(name: str) -> Any:
    """Return the class of a registered pool, such as `covpool.pools.GaussianPool`."""
    for cls in registered_classes():
        if cls.__name__ == name:
            return cls
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
