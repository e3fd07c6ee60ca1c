"""The lock of a run folder: one training at a time.

The operating system releases the lock when the process that holds it ends, even if it is killed. A lock file that is
left behind therefore locks nothing.
"""

import errno
import importlib
import json
import logging
import os
import socket
from datetime import datetime
from pathlib import Path
from typing import Any

from covpool._errors import CovpoolError

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)  # the file system has none

fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None

_held: set[int] = set()  # file descriptors


def _close_in_child() -> None:
    """Close the locks in a forked process: a worker that outlives a killed training must not keep them."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class RunLock:
    """The lock of a run folder, which is created if it does not exist. As a context, it is held inside.

    On a network file system the lock holds between machines if the system supports it. If a file system has no locks, a
    warning says so.

    Args:
        run: The folder of the run.
    """

    def __init__(self, run: Path) -> None:
        self._run, self._path = run, run / LOCK_FILE
        self._descriptor: int | None = None
        self._created: list[Path] = []  # folders, innermost first

    def __enter__(self) -> "RunLock":
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def take(self) -> None:
        """Take the lock. If another training holds it, the error names that training."""
        self._created = [path for path in (self._run, *self._run.absolute().parents) if not path.exists()]
        while self._descriptor is None:
            self._run.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except FileNotFoundError:  # its last owner has just removed the empty folder
                continue
            try:
                self._lock(descriptor)
                if self._is_current(descriptor):
                    self._descriptor = descriptor
            finally:
                if self._descriptor is None:
                    os.close(descriptor)
        _held.add(self._descriptor)
        owner = {"process": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%Y-%m-%d %H:%M:%S}"}
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, json.dumps(owner).encode(), 0)

    def release(self) -> None:
        """Release the lock if it is held, and remove its file and the folders that were created and are empty."""
        if self._descriptor is None:
            return
        self._path.unlink(missing_ok=True)
        _held.discard(self._descriptor)
        os.close(self._descriptor)
        self._descriptor = None
        for folder in self._created:
            try:
                folder.rmdir()
            except OSError:
                return

    def _lock(self, descriptor: int) -> None:
        try:
            if fcntl is None:
                raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CovpoolError(
                f"{self._run} is in use by {_owner(descriptor)}: wait until it ends, stop it, or name another --out"
            ) from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            logger.warning(
                "%s is on a file system without locks (%s): make sure that no other training uses the folder",
                self._run,
                error.strerror,
            )

    def _is_current(self, descriptor: int) -> bool:
        """Whether the lock file is still in the folder: its last owner may have removed it in the meantime."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self._path))
        except FileNotFoundError:
            return False


def _owner(descriptor: int) -> str:
    """The training that holds a lock, in words."""
    try:
        about = json.loads(os.pread(descriptor, 1000, 0))
        return f"process {about['process']} on {about['host']}, since {about['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another training"
