"""How many cores there are to use, and how to leave them alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def usable_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_thread() -> Iterator[None]:
    """Torch's operations on the CPU without its other threads, for many short ones after one another.

    Those threads sleep when they are needed, and where the cores are busy an operation waits for them longer than it
    would have taken: 8 ms instead of 0.1.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
