"""Batches of training and test images on a device, in an order that does not depend on the number of processes."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, InitVar, dataclass, field, replace

import torch

from covpool._errors import CovpoolError, check_positive_int
from covpool._progress import OnProgress, ignore
from covpool.data._images import Images
from covpool.data._settings import Data, ResolvedAugment
from covpool.data.pipeline._batch import Batch, Source
from covpool.data.pipeline._decoded import Decoding
from covpool.data.pipeline._order import ALONE, Share, eval_order, train_order
from covpool.data.pipeline._sources import Sources
from covpool.data.pipeline._transforms import Crops


@dataclass(eq=False)
class _Batches(ABC):
    """What training and evaluation have in common: the images, and how one process loads its share of them."""

    images: Images
    augment: InitVar[ResolvedAugment]
    data: InitVar[Data]
    _: KW_ONLY
    batch_size: int
    share: Share = ALONE
    device: InitVar[torch.device | str] = "cpu"
    on_progress: InitVar[OnProgress] = ignore
    _source: Source = field(init=False, repr=False)

    def __post_init__(
        self, augment: ResolvedAugment, data: Data, device: torch.device | str, on_progress: OnProgress
    ) -> None:
        check_positive_int("batch_size", self.batch_size)
        self._source = self._open(Sources(self.images, augment, data, torch.device(device), on_progress))

    @abstractmethod
    def _open(self, sources: Sources) -> Source: ...


@dataclass(eq=False)
class TrainBatches(_Batches):
    """The training images of one process, epoch by epoch.

    Together, W processes see exactly what one process with W times the batch size sees. The images of an epoch and
    their random variations depend on (seed, epoch) alone, so an epoch can be resumed at any batch.

    Args:
        images: Training set.
        augment: How an image becomes an input.
        data: How images are read and cached.
        batch_size: Images in one micro-batch of one process.
        share: Number of processes, and the rank of this one.
        seed: Seed of the run.
        device: Device that receives the batches.
        on_progress: Called while a cache is filled.
    """

    _: KW_ONLY
    seed: int = 0
    waited: float = field(default=0.0, init=False)  # seconds that the consumer waited for data in the last epoch

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in an epoch, without the incomplete last one."""
        return len(self.images) // (self.batch_size * self.share.world_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch, from batch `start` on; earlier ones are not loaded."""
        rows = train_order(len(self.images), self.batch_size, self.share, seed=self.seed, epoch=epoch)
        self.waited = 0.0
        source = self._source.batches(rows, epoch, start)
        while True:
            before = time.perf_counter()
            batch = next(source, None)
            self.waited += time.perf_counter() - before
            if batch is None:
                return
            yield batch

    def _open(self, sources: Sources) -> Source:
        together = self.batch_size * self.share.world_size
        if len(self.images) < together:
            raise CovpoolError(
                f"a batch must not be larger than the training set; got {together} images (over "
                f"{self.share.world_size} processes) of {len(self.images)}: use a smaller train.batch_size"
            )
        return sources.training(self.seed)


def decode_ahead(images: Images, augment: ResolvedAugment, data: Data) -> Decoding | None:
    """Begin to decode images that will be cached; their batches wait for it. None if they are not cached.

    Args:
        images: Images that are resized before anything random happens to them.
        augment: How an image becomes an input.
        data: How images are read and cached.
    """
    return Sources(images, augment, data, torch.device("cpu"), ignore).decode_ahead()


@dataclass(eq=False)
class EvalBatches(_Batches):
    """The test images of one process, in order; over all processes, every image appears once.

    Args:
        images: Test set.
        augment: How an image becomes an input.
        data: How images are read and cached.
        batch_size: Images in one batch of one process.
        share: Number of processes, and the rank of this one.
        crops: 1 (center) or 10 (corners and center, and the same of the flipped image).
        device: Device that receives the batches.
        on_progress: Called while a cache is filled.
    """

    _: KW_ONLY
    crops: Crops = 1

    def __len__(self) -> int:
        return len(self._rows())

    def __iter__(self) -> Iterator[Batch]:
        paths = self.images.paths
        return (replace(batch, paths=paths) for batch in self._source.batches(self._rows(), 0))

    def _rows(self) -> list[torch.Tensor]:
        return eval_order(len(self.images), self.batch_size, self.share)

    def _open(self, sources: Sources) -> Source:
        return sources.evaluation(self.crops)
