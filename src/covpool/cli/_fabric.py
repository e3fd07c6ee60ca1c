"""lightning_fabric, imported fast."""

import sys

from covpool._errors import require

UNUSED = "torchmetrics"  # lightning_fabric imports it to ask for its version, and it imports transformers: seconds


def import_fabric() -> None:
    """Import lightning_fabric without torchmetrics, which it does not need.

    Only a program may do this, not a library: other code of the same process could ask lightning_fabric whether there
    is a torchmetrics.
    """
    hides = UNUSED not in sys.modules
    if hides:
        sys.modules[UNUSED] = None  # type: ignore[assignment]  # which makes importing it fail
    try:
        require("lightning_fabric", "train")
    finally:
        if hides:
            del sys.modules[UNUSED]
