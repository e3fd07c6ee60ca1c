"""Lightning's Fabric, imported without the rest of Lightning.

`import lightning.fabric` also imports lightning.pytorch and, only to compare its version, torchmetrics with all its
optional packages. That takes two thirds of the start of `covpool train`.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec


@contextmanager
def _alone() -> Iterator[None]:
    """Let `lightning` be an empty package and `torchmetrics` be missing, if neither has been imported."""
    found = find_spec("lightning") if "lightning" not in sys.modules else None
    if found is None or "torchmetrics" in sys.modules:
        yield
        return
    package = module_from_spec(found)  # not executed
    sys.modules["lightning"], sys.modules["torchmetrics"] = package, None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["lightning"], sys.modules["torchmetrics"]


with _alone():
    from lightning.fabric import Fabric as Fabric
    from lightning.fabric.strategies.fsdp import FSDPStrategy as FSDPStrategy
    from lightning.fabric.utilities.exceptions import MisconfigurationException as MisconfigurationException
    from lightning.fabric.wrappers import _FabricModule

FabricModule = _FabricModule
