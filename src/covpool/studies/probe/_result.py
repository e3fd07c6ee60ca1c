"""The result of one pool with one seed, and reading results from a file of JSON lines."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from covpool._records import read_suite

SUITE = "probe"


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """The result of one pool with one seed.

    Attributes:
        key: Digest of the settings.
        pool: Label of the pool: name and options.
        seed: Seed of everything random.
        random: Whether the pool has weights that no data initialize.
        penalty: Chosen penalty of logistic regression.
        penalties_tried: Cross-validated accuracy by penalty.
        converged: Whether logistic regression reached its tolerance; if not, round-off of float32 stopped it before.
        lr: Chosen learning rate of SGD.
        lr_tried: Accuracy on held-out training images by learning rate; -1 where a training diverged.
        held_out: Accuracy on held-out training images with the chosen penalty or learning rate; None without a choice.
        top1: Accuracy on the test images.
        images: Number of test images.
        right: Which test images are classified correctly, four images per hexadecimal digit.
        diverged_at: First step whose loss is not finite.
        channels: Channels that the pool gets.
        size: Length of the representation.
        pool_parameters: Number of parameters of the pool and its reduction.
        classifier_parameters: Number of parameters of the classifier.
        seconds: Time to fit the pool and the classifier, initialization from data included.
        batch_size: Images in the batch whose cost is measured.
        costs: Measured costs: "ms_per_batch", "peak_mib".
        failed: Why there is no result.
    """

    key: str
    pool: str
    seed: int
    random: bool = False
    penalty: float = 0.0
    penalties_tried: dict[str, float] = field(default_factory=dict)
    converged: bool = True
    lr: float = 0.0
    lr_tried: dict[str, float] = field(default_factory=dict)
    held_out: float | None = None
    top1: float = 0.0
    images: int = 0
    right: str = ""
    diverged_at: int | None = None
    channels: int = 0
    size: int = 0
    pool_parameters: int = 0
    classifier_parameters: int = 0
    seconds: float = 0.0
    batch_size: int = 0
    costs: dict[str, float | None] = field(default_factory=dict)
    failed: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the result as a line of the file."""
        return {"suite": SUITE, **dataclasses.asdict(self)}


def read_results(path: Path) -> list[ProbeResult]:
    """Read the results in a file. Lines of other commands and an incomplete last line are ignored."""
    return read_suite(path, ProbeResult, SUITE)


def pack(right: Tensor) -> str:
    """Write booleans (n,) as hexadecimal digits.

    >>> pack(torch.tensor([True, False, True, True, False]))
    'b0'
    """
    return np.packbits(right.cpu().numpy()).tobytes().hex()


def rights(results: Iterable[ProbeResult]) -> Tensor:  # (results, images), 1 where correct
    """Return which images each result classifies correctly."""
    bits = [np.unpackbits(np.frombuffer(bytes.fromhex(one.right), np.uint8), count=one.images) for one in results]
    return torch.from_numpy(np.stack(bits)).double()
