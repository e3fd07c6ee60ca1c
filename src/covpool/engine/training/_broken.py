"""Images that could not be read: each is named once."""

from collections.abc import Iterable, Iterator

import torch
from lightning_fabric import Fabric

from covpool.data import Images
from covpool.data.pipeline import Batch
from covpool.engine._devices import summed


class BrokenImages:
    """Collects the numbers of the images of a set that could not be read.

    Args:
        images: The training set or the test set.
        known: Numbers that have been named; new ones are added to this list.
    """

    def __init__(self, images: Images, known: list[int]) -> None:
        self.images, self.known = images, known
        self._noted: set[int] = set()

    def note(self, numbers: Iterable[int]) -> None:
        """Add images that could not be read."""
        self._noted.update(numbers)

    def watch(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the batches, and note the images in them that could not be read."""
        for batch in batches:
            self.note(batch.index[batch.broken].tolist())
            yield batch

    def collect(self, fabric: Fabric) -> list[str]:
        """Return the paths that have not been named, of all processes. Every process must call this method."""
        noted = torch.zeros(len(self.images), device=fabric.device)
        noted[list(self._noted)] = 1
        new = [i for i in summed(fabric, noted).nonzero().flatten().tolist() if i not in self.known]
        self.known += new
        self._noted.clear()
        return [str(self.images.paths[i]) for i in new]
