"""A training over several processes ends with a reason when one of them is lost."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from lightning_fabric import Fabric

from covpool._errors import CovpoolError

# What gloo and NCCL say when another process is gone or does not answer.
SIGNS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "Timed out waiting", "connectFullMesh")


@contextmanager
def naming_lost_processes(fabric: Fabric, run: Path) -> Iterator[None]:
    """Turn the error of a process that waits for a lost one into one line.

    Args:
        fabric: The processes.
        run: The folder of the run.
    """
    try:
        yield
    except RuntimeError as error:
        if fabric.world_size == 1 or isinstance(error, CovpoolError) or not _is_lost(error):
            raise
        raise CovpoolError(
            "another process of this training died or hangs; see its output. Continue with "
            f"`covpool train --resume {run}` in all processes"
        ) from error


def _is_lost(error: RuntimeError) -> bool:
    return isinstance(error, torch.distributed.DistError) or any(sign in str(error) for sign in SIGNS)
