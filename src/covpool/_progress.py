"""Callbacks that report the progress of long work, for progress bars."""

from collections.abc import Callable

OnProgress = Callable[[str, int, int], None]  # what is being done, how many are done, out of how many (0 = unknown)


def discard(what: str, done: int, total: int) -> None:
    """Discard events."""
