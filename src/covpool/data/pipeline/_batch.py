"""Batches of images and targets, and what produces them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """Images and targets on the device; `index` and `broken` stay on the CPU, where reading them is free."""

    x: Tensor  # (b, 3, s, s), or (b, 10, 3, s, s) with ten crops
    y: Tensor  # (b,), -1 = unknown
    index: Tensor  # (b,) of each image in its set; -1 = padding, where a test set is uneven over processes
    broken: Tensor  # (b,) True where the image could not be read
    paths: Sequence[Path] | None = None  # of the whole set, for messages; None if the images are not files


class Source(Protocol):
    """Produces batches from rows of image indices."""

    def batches(self, rows: Iterable[Tensor], epoch: int, start: int = 0) -> Iterator[Batch]:
        """One batch per row, from row `start` on."""
