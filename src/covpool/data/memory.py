"""Pictures decoded once and kept in memory."""

import os
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from covpool._cores import usable_cores
from covpool.data.images import BrokenImage, Images
from covpool.data.loader import leave_interrupts_to_the_parent

Prepare = Callable[[Image.Image], Image.Image]
Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Progress = Callable[[int, int], None]  # pictures done so far, of how many
PIECE = 1024  # pictures in one block of memory: few blocks to send to a worker, and little to copy at a time
SENT = 32  # pictures that a process which decodes sends at a time
WORTH_A_PROCESS = 256  # pictures


class DecodedImages:
    """All pictures of a part as uint8, each in its own size; reads like `Images`.

    Worker processes share the memory: they inherit it where they are forked, and get handles of it where they are not.

    Args:
        images: the files.
        prepare: what every picture goes through once, before it is kept.
        processes: that decode; 0 = this one alone.
        on_progress: called with (done, of how many).
    """

    def __init__(
        self, images: Images, prepare: Prepare, *, processes: int = 0, on_progress: Progress | None = None
    ) -> None:
        self.paths, self.targets = images.paths, images.targets
        self.reasons: dict[int, str] = {}  # why those that are missing could not be read
        self.sizes = torch.zeros(len(images), 2, dtype=torch.int64)  # height, width; zero where it could not be read
        self.pieces: list[Tensor] = []  # uint8 (pixels, 3): PIECE pictures each, one after another
        pictures = enumerate(_decode_all(images, prepare, processes))
        for start in range(0, len(images), PIECE):
            piece = [self._note(*picture) for picture in islice(pictures, PIECE)]
            self.pieces.append(torch.from_numpy(np.concatenate(piece)))  # torch.cat wakes all threads for each picture
            if on_progress is not None:
                on_progress(min(start + PIECE, len(images)), len(images))
        areas = self.sizes.prod(1)
        self.starts = areas.cumsum(0) - areas  # of each picture, in pixels, over all pieces

    def __len__(self) -> int:
        return len(self.targets)

    def load(self, index: int) -> Image.Image:
        """The picture as it was prepared."""
        if index in self.reasons:
            raise BrokenImage(self.paths[index], self.reasons[index])
        height, width = self.sizes[index].tolist()
        start = int(self.starts[index] - self.starts[index - index % PIECE])
        pixels = self.pieces[index // PIECE][start : start + height * width]
        return Image.fromarray(pixels.view(height, width, 3).numpy())

    def _note(self, index: int, pixels: Pixels | BrokenImage) -> Pixels:
        if isinstance(pixels, BrokenImage):
            self.reasons[index] = pixels.reason
            return np.zeros((0, 3), np.uint8)
        self.sizes[index] = torch.tensor(pixels.shape[:2])
        return pixels.reshape(-1, 3)


def decoding_processes(pictures: int, workers: int) -> int:
    """How many processes decode a cache: none without workers or for few pictures, else as many as there are cores.

    >>> decoding_processes(500, workers=2), decoding_processes(10_000, workers=0)
    (0, 0)
    """
    cores = usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # torchrun's processes all decode
    processes = min(cores, pictures // WORTH_A_PROCESS) if workers else 0
    return processes if processes > 1 else 0


class _Decoding(Dataset[Pixels | BrokenImage]):
    """The pixels (h, w, 3) of a picture, or what is wrong with it."""

    def __init__(self, images: Images, prepare: Prepare) -> None:
        self._images, self._prepare = images, prepare

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, index: int) -> Pixels | BrokenImage:
        try:
            return np.array(self._prepare(self._images.load(index)))
        except BrokenImage as error:
            return error


def _decode_all(images: Images, prepare: Prepare, processes: int) -> Iterator[Pixels | BrokenImage]:
    """All pictures in their order. Processes send them through pipes: a container's shared memory may be small."""
    loader = DataLoader(
        _Decoding(images, prepare),
        batch_size=SENT,
        num_workers=processes,
        collate_fn=list,
        worker_init_fn=leave_interrupts_to_the_parent,
        generator=torch.Generator(),  # the global one belongs to the network
    )
    return chain.from_iterable(loader)
