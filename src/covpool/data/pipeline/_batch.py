"""What a training loop gets: pictures and classes on the device."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """Pictures and classes on the device; `index` and `broken` stay on the CPU, where looking at them costs nothing."""

    x: Tensor  # (b, 3, s, s), or (b, 10, 3, s, s) of ten crops
    y: Tensor  # (b,), -1 = unknown
    index: Tensor  # (b,), which of the images; -1 fills up where a test on several processes does not come out even
    broken: Tensor  # (b,), True where that picture could not be read


class Source(Protocol):
    """Where batches come from: one per row of picture numbers."""

    def batches(self, rows: Iterable[Tensor], epoch: int, start: int = 0) -> Iterator[Batch]:
        """Those from row `start` on."""
