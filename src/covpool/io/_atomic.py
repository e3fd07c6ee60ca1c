"""Files that are whole or not there at all."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from uuid import uuid4

DIGITS = 8  # of a temporary name
PROBE = 1 << 20  # bytes; a disk that has room for so much is not full
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
    partial = path.with_name(f".{path.stem}-{uuid4().hex[:DIGITS]}{path.suffix}")
    try:
        partial.touch(exist_ok=False)
        usual_mode = partial.stat().st_mode
        yield partial
        partial.chmod(usual_mode)  # safetensors makes files that only their owner can read
        with open(partial, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except Exception as error:
        refusal = _refusal(error, partial)
        if refusal is None or refusal.errno not in NO_ROOM:
            raise
        raise OSError(
            f"{str(path)!r} cannot be written: {refusal.strerror}. Make room and try again; the old file is whole"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _refusal(error: Exception, partial: Path) -> OSError | None:
    """What the system said, where a library put it in words of its own; None if it was not the system."""
    if isinstance(error, OSError):
        return error
    told = re.search(r"\(os error (\d+)\)", str(error))  # safetensors, whose Rust writes it so
    if told:
        return OSError(int(told[1]), os.strerror(int(told[1])))
    try:
        with open(partial, "ab") as file:  # torch does not tell: ask once more
            file.write(bytes(PROBE))
            os.fsync(file.fileno())
    except OSError as refusal:
        return refusal
    return None


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove what `replacing` could not, where the program was killed while it wrote `path`."""
    path = Path(path)
    for partial in path.parent.glob(f".{escape(path.stem)}-{'[0-9a-f]' * DIGITS}{escape(path.suffix)}"):
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
