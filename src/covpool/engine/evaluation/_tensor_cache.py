"""Tensors kept in a folder under a key of everything they depend on."""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from covpool._errors import CovpoolError, require
from covpool._files import read_tensors
from covpool.io import replacing

T = TypeVar("T")


def cached(folder: Path | None, key: dict[str, object], compute: Callable[[], T], kind: type[T]) -> T:
    """Return the result of `compute`, read from the folder if it was computed before under the same key.

    Args:
        folder: Folder of the files; None computes in any case.
        key: Everything the result depends on, as JSON.
        compute: Computes the result.
        kind: Type of the result, a dataclass of tensors. Tensors read from a file are on the CPU.
    """
    if folder is None:
        return compute()
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:24]
    path = folder / f"{name}.safetensors"
    if path.is_file():
        try:
            return kind(**read_tensors(path))
        except (ValueError, TypeError) as error:
            raise CovpoolError(
                f"{path} is damaged, or was not written by covpool: delete it, and it is computed again"
            ) from error
    made = compute()
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        require("safetensors.torch", "models").save_file(vars(made), temporary)
    return made


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_marks(paths: Iterable[Path]) -> list[str]:
    """The path, size and modification time of every file, so that a replaced file changes a cache key."""
    return [_mark(path) for path in paths]


def _mark(path: Path) -> str:
    try:
        about = path.stat()
    except OSError:  # reported when the image is read
        return str(path)
    return f"{path} {about.st_size} {about.st_mtime_ns}"
