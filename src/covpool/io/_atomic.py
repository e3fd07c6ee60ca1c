"""Files that are written completely or not at all."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from glob import escape
from pathlib import Path
from uuid import uuid4

from covpool._errors import CovpoolError

DIGITS = 8  # random digits in a temporary name
PROBE = 1 << 20  # bytes; a disk with room for them is not full
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary file beside `path`, which is renamed to `path` if the block succeeds and removed if it fails.

    `path` always holds the old file or the complete new one, even after a crash.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/hello.txt") as partial:
    ...         _ = partial.write_text("hello")
    ...     [file.name for file in pathlib.Path(folder).iterdir()]
    ['hello.txt']
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder of {str(path)!r} does not exist: create it first")
    if path.is_dir():
        raise IsADirectoryError(f"the output must be a file; {str(path)!r} is a folder: add a file name")
    partial = path.with_name(f".{path.stem}-{uuid4().hex[:DIGITS]}{path.suffix}")
    try:
        partial.touch(exist_ok=False)
        usual_mode = partial.stat().st_mode
        yield partial
        partial.chmod(usual_mode)  # safetensors creates files that only their owner can read
        with open(partial, "rb+") as written:
            os.fsync(written.fileno())
        os.replace(partial, path)
        _sync_folder(path.parent)
    except CovpoolError:  # not the disk
        raise
    except Exception as error:
        refusal = _refusal(error, partial)
        if refusal is None or refusal.errno not in NO_ROOM:
            raise
        raise OSError(
            f"{str(path)!r} cannot be written: {refusal.strerror}. Free some space; the old file is unchanged"
        ) from error
    finally:
        partial.unlink(missing_ok=True)


def _refusal(error: Exception, partial: Path) -> OSError | None:
    """The error of the operating system behind a library's own error; None if there is none."""
    if isinstance(error, OSError):
        return error
    told = re.search(r"\(os error (\d+)\)", str(error))  # the message of safetensors
    if told:
        return OSError(int(told[1]), os.strerror(int(told[1])))
    try:
        with open(partial, "ab") as file:  # torch hides the cause: try to write once more
            file.write(bytes(PROBE))
            os.fsync(file.fileno())
    except OSError as refusal:
        return refusal
    return None


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove temporary files that `replacing` left behind because the program was killed while it wrote `path`."""
    path = Path(path)
    for partial in path.parent.glob(f".{escape(path.stem)}-{'[0-9a-f]' * DIGITS}{escape(path.suffix)}"):
        partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself durable, on systems that can open a folder."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
