"""Images that are decoded once and kept in memory."""

import multiprocessing
import signal
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from covpool._cores import usable_cores
from covpool._errors import OutOfResourcesError
from covpool._progress import OnProgress, ignore
from covpool.data._images import BrokenImage, Images

Pixels = np.ndarray[Any, np.dtype[np.uint8]]
Prepare = Callable[[Image.Image], Image.Image]
AT_ONCE = 32  # images that are decoded before more are taken; progress is reported and Ctrl-C noticed in between
BLOCK = 1024  # images in one block of memory: few blocks to send to a worker, and little to copy at a time
# From this number of images on, processes decode them: Pillow holds Python's lock while it decodes some formats.
MANY = 1024


class Decoding:
    """Images of a set that are being decoded on all cores. Decoding starts at once and does not block.

    Args:
        images: Files to decode.
        prepare: Applied to every image before it is kept.
    """

    def __init__(self, images: Images, prepare: Prepare) -> None:
        self.images = images
        self._workers, decode = _workers(images, prepare)
        runs = (range(i, min(i + AT_ONCE, len(images))) for i in range(0, len(images), AT_ONCE))
        with warnings.catch_warnings():  # the processes are forked here; they use neither locks nor threads of others
            warnings.simplefilter("ignore", DeprecationWarning)
            submitted = ((run, self._workers.submit(decode, run)) for run in runs)
            self._runs: deque[tuple[range, Future[Any]]] = deque(submitted)

    def __iter__(self) -> Iterator[tuple[range, list[Pixels | BrokenImage]]]:
        """Wait for the images, and yield them in order, a few at a time."""
        while self._runs:
            run, decoded = self._runs.popleft()
            try:
                yield run, decoded.result()
            except BrokenProcessPool as error:
                raise OutOfResourcesError(
                    "a process that decodes images was killed, probably because memory ran out: use a smaller "
                    'augment.resize, or data.cache = "none"'
                ) from error

    def __enter__(self) -> "Decoding":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop decoding and discard what has not been taken."""
        self._runs.clear()
        self._workers.shutdown(cancel_futures=True)


class DecodedImages:
    """All images of a set as uint8, each in its own size, with the interface of `Images`.

    Worker processes share the memory: forked workers inherit it, spawned workers receive handles.

    Args:
        decoding: The images.
        on_progress: Called after every few images.
    """

    def __init__(self, decoding: Decoding, on_progress: OnProgress = ignore) -> None:
        images = decoding.images
        self.paths, self.targets = images.paths, images.targets
        self.reasons: dict[int, str] = {}  # why an image could not be read, by its index
        self.sizes = torch.zeros(len(images), 2, dtype=torch.int64)  # height, width; zero if it could not be read
        self.blocks: list[Tensor] = []  # uint8 (pixels, 3): BLOCK images each, one after another
        pixels: list[Pixels] = []
        with decoding:
            for run, found in decoding:
                for index, one in zip(run, found, strict=True):
                    pixels.append(self._record(index, one))
                    if len(pixels) == BLOCK or index + 1 == len(images):
                        # Not torch.cat, which can hang on a busy machine.
                        self.blocks.append(torch.from_numpy(np.concatenate(pixels)))
                        pixels = []
                on_progress("decoding images", run.stop, len(images))
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


def _workers(images: Images, prepare: Prepare) -> tuple[Executor, Callable[[range], list[Pixels | BrokenImage]]]:
    """Processes, or threads for few images and where processes cannot be forked; and the function that they run."""
    cores = usable_cores()
    if cores > 1 and len(images) >= MANY and "fork" in multiprocessing.get_all_start_methods():
        fork = multiprocessing.get_context("fork")
        return ProcessPoolExecutor(cores, fork, _begin_process, (images, prepare)), _decode_in_process
    return ThreadPoolExecutor(cores), partial(_decode, images, prepare)


_inherited: list[Any] = []  # the images and `prepare` of a process, which are too large to be sent with every task


def _begin_process(images: Images, prepare: Prepare) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends Ctrl-C to every process; the parent stops them
    _inherited[:] = images, prepare


def _decode_in_process(indices: range) -> list[Pixels | BrokenImage]:
    images, prepare = _inherited
    return _decode(images, prepare, indices)


def _decode(images: Images, prepare: Prepare, indices: range) -> list[Pixels | BrokenImage]:
    """The pixels (h, w, 3) of each image, or the error that reading it raised."""
    found: list[Pixels | BrokenImage] = []
    for index in indices:
        try:
            found.append(np.array(prepare(images.load(index))))
        except BrokenImage as error:
            found.append(error)
    return found
