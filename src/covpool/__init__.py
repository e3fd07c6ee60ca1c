"""covpool: global covariance (second-order) pooling for PyTorch."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from covpool import blocks as blocks
    from covpool import diagnostics as diagnostics
    from covpool import io as io
    from covpool import models as models
    from covpool import ops as ops
    from covpool import pools as pools
    from covpool._errors import CovpoolError as CovpoolError
    from covpool.io import import_checkpoint as import_checkpoint
    from covpool.io import load as load
    from covpool.io import save as save
    from covpool.models import BlockInfo as BlockInfo
    from covpool.models import Network as Network
    from covpool.models import attach as attach
    from covpool.models import block_info as block_info
    from covpool.models import create_model as create_model
    from covpool.models import insert as insert
    from covpool.models import list_blocks as list_blocks
    from covpool.models import list_models as list_models
    from covpool.pools import Pool as Pool
    from covpool.pools import PoolInfo as PoolInfo
    from covpool.pools import create_pool as create_pool
    from covpool.pools import list_pools as list_pools
    from covpool.pools import pool_info as pool_info
    from covpool.pools import register as register
    from covpool.pools import unregister as unregister
    from covpool.report import push_to_hub as push_to_hub
    from covpool.studies.fit import FitResult as FitResult
    from covpool.studies.fit import fit as fit

__version__ = "0.2.0"

# The public modules and names. Each is imported when it is first used, so that `import covpool` and `covpool --help`
# do not wait for torch.
_PUBLIC: dict[str, tuple[str, ...]] = {
    "_errors": ("CovpoolError",),
    "blocks": (),
    "diagnostics": (),
    "io": ("import_checkpoint", "load", "save"),
    "models": (
        *("BlockInfo", "Network", "attach", "block_info", "create_model", "insert", "list_blocks", "list_models"),
    ),
    "ops": (),
    "pools": ("Pool", "PoolInfo", "create_pool", "list_pools", "pool_info", "register", "unregister"),
    "report._card": ("push_to_hub",),
    "studies.fit": ("FitResult", "fit"),
}
_HOMES = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = sorted([*_HOMES, *(module for module in _PUBLIC if module.isalpha())])


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return importlib.import_module(f"covpool.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'covpool' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"covpool.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
