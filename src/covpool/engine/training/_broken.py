"""Pictures that could not be read: each is named once."""

from collections.abc import Iterable, Iterator

import torch
from lightning.fabric import Fabric

from covpool.data import Images
from covpool.data.pipeline import Batch
from covpool.engine._devices import summed


class BrokenImages:
    """Gathers the numbers of broken pictures of one part of a data set.

    Args:
        images: that part.
        known: numbers that were named before; new ones are added to it.
    """

    def __init__(self, images: Images, known: list[int]) -> None:
        self.images, self.known = images, known
        self._noted: set[int] = set()

    def note(self, numbers: Iterable[int]) -> None:
        self._noted.update(numbers)

    def watch(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The same batches; broken ones among them are noted."""
        for batch in batches:
            self.note(batch.index[batch.broken].tolist())
            yield batch

    def collect(self, fabric: Fabric) -> list[str]:
        """The paths that are new, of all processes; all of them must take part."""
        noted = torch.zeros(len(self.images), device=fabric.device)
        noted[list(self._noted)] = 1
        new = [i for i in summed(fabric, noted).nonzero().flatten().tolist() if i not in self.known]
        self.known += new
        self._noted.clear()
        return [str(self.images.paths[i]) for i in new]
