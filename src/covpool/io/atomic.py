"""Files that are whole or not there at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary name beside `path` to write to: renamed to it when the block ends, removed when the block fails.

    Whoever opens `path`, after a crash too, finds what stood there before or the whole new file.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/hello.txt") as partial:
    ...         _ = partial.write_text("hello")
    ...     [file.name for file in pathlib.Path(folder).iterdir()]
    ['hello.txt']
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder of {str(path)!r} does not exist: make it first")
    if path.is_dir():
        raise IsADirectoryError(f"a file must be written, and {str(path)!r} is a folder: add a file name")
    partial = path.with_name(f".{path.stem}-{uuid4().hex[:8]}{path.suffix}")
    try:
        partial.touch(exist_ok=False)
        usual_mode = partial.stat().st_mode
        yield partial
        partial.chmod(usual_mode)  # safetensors makes files that only their owner can read
        with open(partial, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself durable, where the system lets a folder be opened."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
