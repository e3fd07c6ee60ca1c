"""Images as a torch Dataset whose random numbers depend on (seed, epoch, index) alone."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from covpool._errors import CovpoolError
from covpool.data._images import UNKNOWN, BrokenImage
from covpool.data.pipeline._transforms import Transform

PADDING = -1  # index that stands for no image


class ImageSource(Protocol):
    """Images to load by index: files, or a cache in memory."""

    @property
    def targets(self) -> list[int]: ...
    def __len__(self) -> int: ...
    def load(self, index: int) -> Image.Image: ...


@dataclass(frozen=True, eq=False)
class Sample:
    """One image, ready for the network."""

    x: Tensor  # (3, s, s), or (10, 3, s, s)
    y: int
    index: int  # of the requested image
    reason: str  # why it could not be read; empty if it could


class Samples(Dataset[Sample]):
    """Transformed images by (epoch, index).

    The random numbers of a sample depend on (seed, epoch, index) alone. So the worker, the process and the order make
    no difference, and a resumed run sees the same inputs.

    Args:
        images: Images to load.
        transform: Turns an image into a tensor.
        seed: Seed of the run.
        blank: Replaces an image that cannot be read, with an unknown class; None = the next readable image replaces it.
    """

    def __init__(
        self, images: ImageSource, transform: Transform, *, seed: int = 0, blank: Tensor | None = None
    ) -> None:
        self.images, self.transform, self.seed, self.blank = images, transform, seed, blank

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, key: tuple[int, int]) -> Sample:
        epoch, index = key
        if index == PADDING:
            assert self.blank is not None
            return Sample(self.blank, UNKNOWN, index, "")
        reason = ""
        for step in range(len(self)):
            candidate = (index + step) % len(self)
            try:
                image = self.images.load(candidate)
                with drawing(self.seed, epoch, index):
                    return Sample(self.transform(image), self.images.targets[candidate], index, reason)
            except BrokenImage as error:
                reason = reason or error.reason
                if self.blank is not None:
                    return Sample(self.blank, UNKNOWN, index, reason)
        raise CovpoolError(f"none of the {len(self)} images can be read: {reason}")


def seed_of(*numbers: int) -> int:
    """A seed for torch that changes with each of the numbers.

    >>> seed_of(0, 1) == seed_of(0, 1), seed_of(0, 1) == seed_of(1, 0)
    (True, False)
    """
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=4).digest())


@contextmanager
def drawing(*numbers: int) -> Iterator[None]:
    """Seed the random generators with these numbers, and restore them on exit.

    GPU generators, which belong to the network, keep their state; torch.manual_seed would change them too.
    """
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    seed = seed_of(*numbers)
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
