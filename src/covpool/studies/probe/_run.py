"""The result of one pool with one seed, and results kept in a file of JSON lines."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool.engine.training import read_log

SUITE = "probe"
REQUIRED = ("key", "pool", "seed")


@dataclass(frozen=True, kw_only=True)
class Run:
    """What came of one pool with one seed.

    Attributes:
        key: a name for the settings it was made with.
        pool: its label, name and options.
        seed: of the weights, the order and the mirroring.
        lr: that was chosen.
        lr_tried: accuracy on the held-out training pictures by learning rate; -1 where a training diverged.
        top1: accuracy on the test pictures.
        images: how many they are.
        right: which of them were answered rightly, four in a hexadecimal digit.
        diverged_at: the first step whose loss was not finite.
        size: of the representation.
        pool_parameters, classifier_parameters: the reduction counts to the pool.
        seconds: of the training, the start from data included.
        batch_size: pictures in the batch that was measured.
        costs: what was measured: "ms_per_batch", "peak_mib".
        failed: why there is no result.
    """

    key: str
    pool: str
    seed: int
    lr: float = 0.0
    lr_tried: dict[str, float] = field(default_factory=dict)
    top1: float = 0.0
    images: int = 0
    right: str = ""
    diverged_at: int | None = None
    size: int = 0
    pool_parameters: int = 0
    classifier_parameters: int = 0
    seconds: float = 0.0
    batch_size: int = 0
    costs: dict[str, float | None] = field(default_factory=dict)
    failed: str = ""

    def as_json(self) -> dict[str, Any]:
        return {"suite": SUITE, **dataclasses.asdict(self)}


def read_runs(path: Path) -> list[Run]:
    """The results in a file, without what others wrote there and without a last line that is only half there."""
    names = [field.name for field in dataclasses.fields(Run)]
    lines = [line for line in read_log(path) if line.get("suite") == SUITE]
    for line in lines:
        missing = [name for name in REQUIRED if name not in line]
        if missing:
            raise CovpoolError(
                f"a result in {path} must have {', '.join(REQUIRED)}; {line} has no {missing[0]}: remove it"
            )
    return [Run(**{name: line[name] for name in names if name in line}) for line in lines]


def pack(right: Tensor) -> str:
    """Booleans (n,) as hexadecimal digits.

    >>> pack(torch.tensor([True, False, True, True, False]))
    'b0'
    """
    return np.packbits(right.cpu().numpy()).tobytes().hex()


def rights(runs: Iterable[Run]) -> Tensor:  # (runs, images), 1 where right
    """Which pictures each run answered rightly."""
    bits = [np.unpackbits(np.frombuffer(bytes.fromhex(run.right), np.uint8), count=run.images) for run in runs]
    return torch.from_numpy(np.stack(bits)).double()
