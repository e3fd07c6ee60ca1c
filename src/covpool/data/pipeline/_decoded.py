"""Pictures decoded once and kept in memory."""

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
AT_ONCE = 32  # pictures that a thread decodes before it asks for more
PIECE = 1024  # pictures in one block of memory: few blocks to send to a worker, and little to copy at a time


class DecodedImages:
    """All pictures of a part as uint8, each in its own size; reads like `Images`.

    Worker processes share the memory: they inherit it where they are forked, and get handles of it where they are not.

    Args:
        images: the files.
        prepare: what every picture goes through once, before it is kept.
        on_progress: Called after every few images.
    """

    def __init__(self, images: Images, prepare: Prepare, on_progress: OnProgress = discard) -> None:
        self.paths, self.targets = images.paths, images.targets
        self.reasons: dict[int, str] = {}  # why those that are missing could not be read
        self.sizes = torch.zeros(len(images), 2, dtype=torch.int64)  # height, width; zero where it could not be read
        self.pieces: list[Tensor] = []  # uint8 (pixels, 3): PIECE pictures each, one after another
        threads = ThreadPoolExecutor(usable_cores())  # decoding leaves Python's lock
        try:
            for start in range(0, len(images), PIECE):
                chosen = range(start, min(start + PIECE, len(images)))
                parts = [chosen[i : i + AT_ONCE] for i in range(0, len(chosen), AT_ONCE)]
                pixels: list[Pixels] = []
                decoded = threads.map(lambda part: _decode(images, part, prepare), parts)
                for part, found in zip(parts, decoded, strict=True):
                    pixels += [self._note(index, p) for index, p in zip(part, found, strict=True)]
                    on_progress("decoding images", part.stop, len(images))
                self.pieces.append(
                    torch.from_numpy(np.concatenate(pixels))
                )  # a busy machine was seen to stay in torch.cat
        finally:
            threads.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest
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


def _decode(images: Images, part: Iterable[int], prepare: Prepare) -> list[Pixels | BrokenImage]:
    """The pixels (h, w, 3) of pictures, or what is wrong with them."""
    found: list[Pixels | BrokenImage] = []
    for index in part:
        try:
            found.append(np.array(prepare(images.load(index))))
        except BrokenImage as error:
            found.append(error)
    return found
