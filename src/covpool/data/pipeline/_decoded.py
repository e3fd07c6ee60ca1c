"""Images that are decoded once and kept in memory."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from covpool._cores import usable_cores
from covpool._progress import OnProgress, discard
from covpool.data._images import BrokenImage, Images

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Prepare = Callable[[Image.Image], Image.Image]
AT_ONCE = 32  # images that a thread decodes before it takes more; progress is reported and Ctrl-C noticed in between
BLOCK = 1024  # images in one block of memory: few blocks to send to a worker, and little to copy at a time


class DecodedImages:
    """All images of a set as uint8, each in its own size, with the interface of `Images`.

    Worker processes share the memory: forked workers inherit it, spawned workers receive handles.

    Args:
        images: Files to decode.
        prepare: Applied to every image before it is kept.
        on_progress: Called after every few images.
    """

    def __init__(self, images: Images, prepare: Prepare, on_progress: OnProgress = discard) -> None:
        self.paths, self.targets = images.paths, images.targets
        self.reasons: dict[int, str] = {}  # why an image could not be read, by its index
        self.sizes = torch.zeros(len(images), 2, dtype=torch.int64)  # height, width; zero if it could not be read
        self.blocks: list[Tensor] = []  # uint8 (pixels, 3): BLOCK images each, one after another
        threads = ThreadPoolExecutor(usable_cores())  # decoding releases Python's lock
        try:
            for start in range(0, len(images), BLOCK):
                block = range(start, min(start + BLOCK, len(images)))
                runs = [block[i : i + AT_ONCE] for i in range(0, len(block), AT_ONCE)]
                pixels: list[Pixels] = []
                decoded = threads.map(lambda run: _decode(images, run, prepare), runs)
                for run, found in zip(runs, decoded, strict=True):
                    pixels += [self._record(index, p) for index, p in zip(run, found, strict=True)]
                    on_progress("decoding images", run.stop, len(images))
                # Not torch.cat, which can hang on a busy machine.
                self.blocks.append(torch.from_numpy(np.concatenate(pixels)))
        finally:
            threads.shutdown(cancel_futures=True)  # on Ctrl-C, do not decode the rest
        areas = self.sizes.prod(1)
        self.starts = areas.cumsum(0) - areas  # first pixel of each image, counted over all blocks

    def __len__(self) -> int:
        return len(self.targets)

    def load(self, index: int) -> Image.Image:
        """The prepared image."""
        if index in self.reasons:
            raise BrokenImage(self.paths[index], self.reasons[index])
        height, width = self.sizes[index].tolist()
        start = int(self.starts[index] - self.starts[index - index % BLOCK])
        pixels = self.blocks[index // BLOCK][start : start + height * width]
        return Image.fromarray(pixels.view(height, width, 3).numpy())

    def _record(self, index: int, pixels: Pixels | BrokenImage) -> Pixels:
        if isinstance(pixels, BrokenImage):
            self.reasons[index] = pixels.reason
            return np.zeros((0, 3), np.uint8)
        self.sizes[index] = torch.tensor(pixels.shape[:2])
        return pixels.reshape(-1, 3)


def _decode(images: Images, indices: Iterable[int], prepare: Prepare) -> list[Pixels | BrokenImage]:
    """The pixels (h, w, 3) of each image, or the error that reading it raised."""
    found: list[Pixels | BrokenImage] = []
    for index in indices:
        try:
            found.append(np.array(prepare(images.load(index))))
        except BrokenImage as error:
            found.append(error)
    return found
