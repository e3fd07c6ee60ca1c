"""A fast import of lightning_fabric."""

import sys

from covpool._errors import require

UNUSED = "torchmetrics"  # lightning_fabric imports it only to check its version, but that imports transformers: seconds


def import_fabric() -> None:
    """Import lightning_fabric without torchmetrics, which it does not need.

    Only programs may call this function, not libraries: lightning_fabric then takes torchmetrics for missing, also for
    other code in the process.
    """
    hides = UNUSED not in sys.modules
    if hides:
        sys.modules[UNUSED] = None  # type: ignore[assignment]  # makes its import fail
    try:
        require("lightning_fabric", "train")
    finally:
        if hides:
            del sys.modules[UNUSED]
