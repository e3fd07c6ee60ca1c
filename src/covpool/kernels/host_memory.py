"""Memory that freed tensors leave on the CPU, kept for the next tensors.

glibc returns every large tensor to the system when it is freed. A network asks for as much in its next layer, and the
system clears each page again, which can take longer than the layers.
"""

import ctypes
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

# Parameters of mallopt, from malloc.h.
TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4
KEPT = {MMAP_MAX: 0, TRIM_THRESHOLD: -1}  # no tensor has pages of its own, and none are returned
# glibc's number of mapped tensors, and the largest thresholds that its own rule reaches, in bytes.
USUAL = {MMAP_MAX: 65536, MMAP_THRESHOLD: 2**25, TRIM_THRESHOLD: 2**26}


class _Users:
    """How many contexts keep memory now."""

    def __init__(self) -> None:
        self.count = 0
        self.lock = threading.Lock()

    def add(self, change: int, libc: ctypes.CDLL) -> None:
        with self.lock:
            before, self.count = self.count, self.count + change
            if 0 in (before, self.count):
                for parameter, value in (KEPT if self.count else USUAL).items():
                    libc.mallopt(parameter, value)
                if not self.count:
                    libc.malloc_trim(0)


_users = _Users()


@contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep the memory of freed tensors in the process, and return it to the system at the end of the context.

    This does nothing without glibc.

    >>> with freed_memory_kept():
    ...     _ = bytearray(2**26)
    """
    libc = _glibc()
    if libc is None:
        yield
        return
    _users.add(1, libc)
    try:
        yield
    finally:
        _users.add(-1, libc)


@cache
def _glibc() -> ctypes.CDLL | None:
    if platform.libc_ver()[0] != "glibc":
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "mallopt") and hasattr(libc, "malloc_trim") else None
