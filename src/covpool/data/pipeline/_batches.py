"""Batches of training and test pictures on a device, in an order that does not depend on the number of processes."""

import time
from collections.abc import Iterator

import torch

from covpool._check import check_positive_int
from covpool._errors import CovpoolError
from covpool.data._images import Images
from covpool.data._settings import Augment, Data
from covpool.data.pipeline._batch import Batch
from covpool.data.pipeline._decoded import Progress
from covpool.data.pipeline._order import test_order, train_order
from covpool.data.pipeline._sources import Sources
from covpool.data.pipeline._transforms import Crops


class TrainBatches:
    """The training pictures of one process, epoch by epoch.

    W processes see together exactly what one process with W times the batch size sees; the pictures and their random
    variations depend on (seed, epoch) alone, so an epoch can be taken up at any batch.

    Args:
        images: the training part.
        augment: from picture to input.
        data: how they are read and kept.
        batch_size: of one process and one micro-batch.
        world_size, rank: how many processes there are, and which this is.
        seed: of the run.
        device: where the batches go.
        on_progress: called with (done, of how many) while a cache is filled.
    """

    waited: float = 0.0  # seconds that the consumer waited for data in the last epoch

    def __init__(
        self,
        images: Images,
        augment: Augment,
        data: Data,
        *,
        batch_size: int,
        world_size: int = 1,
        rank: int = 0,
        seed: int = 0,
        device: torch.device | str = "cpu",
        on_progress: Progress | None = None,
    ) -> None:
        self.images, self.seed = images, seed
        self._batch_size, self._world_size, self._rank = batch_size, world_size, rank
        self._check_size()
        self._source = Sources(images, augment, data, torch.device(device), on_progress).training(seed)

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch; the incomplete last one is left out."""
        return len(self.images) // (self._batch_size * self._world_size)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from number `start` on; those before are not loaded."""
        share = {"world_size": self._world_size, "rank": self._rank}
        rows = train_order(len(self.images), self._batch_size, **share, seed=self.seed, epoch=epoch)
        self.waited = 0.0
        source = self._source.batches(rows, epoch, start)
        while True:
            before = time.perf_counter()
            batch = next(source, None)
            self.waited += time.perf_counter() - before
            if batch is None:
                return
            yield batch

    def _check_size(self) -> None:
        check_positive_int("batch_size", self._batch_size)
        together = self._batch_size * self._world_size
        if len(self.images) < together:
            raise CovpoolError(
                f"a batch must not be larger than the training part; got {together} pictures (over {self._world_size} "
                f"processes) of {len(self.images)}: use a smaller train.batch_size"
            )


class TestBatches:
    """The test pictures of one process, in order; over all processes every picture comes once.

    Args:
        images: the test part.
        augment: from picture to input.
        data: how they are read and kept.
        batch_size: of one process.
        world_size, rank: how many processes there are, and which this is.
        crops: 1 (central) or 10 (corners and centre, mirrored too).
        device: where the batches go.
        on_progress: called with (done, of how many) while a cache is filled.
    """

    __test__ = False  # for pytest, which takes the name for its own

    def __init__(
        self,
        images: Images,
        augment: Augment,
        data: Data,
        *,
        batch_size: int,
        world_size: int = 1,
        rank: int = 0,
        crops: Crops = 1,
        device: torch.device | str = "cpu",
        on_progress: Progress | None = None,
    ) -> None:
        check_positive_int("batch_size", batch_size)
        self.images = images
        self._rows = test_order(len(images), batch_size, world_size=world_size, rank=rank)
        self._source = Sources(images, augment, data, torch.device(device), on_progress).test(crops)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Batch]:
        return self._source.batches(self._rows, 0)
