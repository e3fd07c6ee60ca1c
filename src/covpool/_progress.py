"""Callbacks that report the progress of long work, for progress bars, and the one that does nothing."""

from collections.abc import Callable

OnProgress = Callable[[str, int, int], None]  # what is being done, how many are done, out of how many (0 = unknown)


def ignore(*_: object) -> None:
    """Discard events."""
