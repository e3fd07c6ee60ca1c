"""Results that are kept as JSON files, so that a later call does not compute them again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError
from covpool.io import replacing


def keep(path: Path, found: Mapping[str, Any]) -> None:
    """Write a result completely or not at all: half a file would count as the result from then on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial:
        partial.write_text(json.dumps(found, indent=2) + "\n")


def read_kept(path: Path, key: str) -> Any:
    """Return an entry of a result; None if there is no file."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text())[key]
    except (ValueError, KeyError, TypeError) as error:
        raise CovpoolError(f"{path} is damaged: remove it, and run the command again") from error
