"""Pictures as a torch Dataset whose every draw depends on (seed, epoch, index) alone."""

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

PADDING = -1  # an index that stands for no picture


class Loads(Protocol):
    """What pictures are taken from: files, or a copy in memory."""

    @property
    def targets(self) -> list[int]: ...
    def __len__(self) -> int: ...
    def load(self, index: int) -> Image.Image: ...


@dataclass(frozen=True, eq=False)
class Sample:
    """One picture, ready for the network."""

    x: Tensor  # (3, s, s), or (10, 3, s, s)
    y: int
    index: int  # the picture that was asked for
    reason: str  # why it could not be read, if so


class Samples(Dataset[Sample]):
    """Pictures by (epoch, index), transformed.

    The random numbers of a sample come from (seed, epoch, index) alone: which worker loads it, in what order and in
    which process makes no difference, and a resumed run sees the same pictures.

    Args:
        images: where they come from.
        transform: of a picture into a tensor.
        seed: of the run.
        blank: stands for a picture that cannot be read, its class unknown; None puts the next readable picture in its
            place. `reason` then says why.
    """

    def __init__(self, images: Loads, transform: Transform, *, seed: int = 0, blank: Tensor | None = None) -> None:
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
            except BrokenImage as error:
                reason = reason or error.reason
                if self.blank is not None:
                    return Sample(self.blank, UNKNOWN, index, reason)
                continue
            with drawing(self.seed, epoch, index):
                return Sample(self.transform(image), self.images.targets[candidate], index, reason)
        raise CovpoolError(f"none of the {len(self)} pictures can be read: {reason}")


def seed_of(*numbers: int) -> int:
    """A seed for torch that differs wherever one of the numbers does.

    >>> seed_of(0, 1) == seed_of(0, 1), seed_of(0, 1) == seed_of(1, 0)
    (True, False)
    """
    return int.from_bytes(hashlib.blake2b(repr(numbers).encode(), digest_size=4).digest())


@contextmanager
def drawing(*numbers: int) -> Iterator[None]:
    """Random numbers from these numbers alone inside, and the generators as they were afterwards.

    Only the CPU's generator is touched: torch.manual_seed would set those of the GPUs too, which belong to the network.
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
