"""Batches from files, or from memory, through torch's DataLoader."""

import signal
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from covpool._errors import CovpoolError
from covpool.data._images import BrokenImage, Images
from covpool.data._settings import Data
from covpool.data.pipeline._batch import Batch
from covpool.data.pipeline._samples import Sample, Samples

Collated = tuple[Tensor, Tensor, Tensor, list[str]]  # x, y, index, reasons, as a worker sends them


class Keys(Sampler[list[tuple[int, int]]]):
    """The (epoch, index) of the images in each batch; set before each epoch, as the workers live on."""

    def __init__(self) -> None:
        self.rows: Iterable[Tensor] = ()
        self.epoch = 0

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        for row in self.rows:
            yield [(self.epoch, index) for index in row.tolist()]


class Attempts(Dataset[Sample | CovpoolError]):
    """Samples, or the CovpoolError that one raised; torch would turn a worker's error into the text of a traceback."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, key: tuple[int, int]) -> Sample | CovpoolError:
        try:
            return self._samples[key]
        except CovpoolError as error:
            return error


class LoaderSource:
    """Batches of samples from a DataLoader."""

    def __init__(self, samples: Samples, images: Images, data: Data, device: torch.device) -> None:
        self._images, self._refuses, self._device = images, data.broken == "refuse", device
        self._keys = Keys()
        self._loader = DataLoader(
            Attempts(samples),
            batch_sampler=self._keys,
            num_workers=data.workers,
            collate_fn=collate,
            pin_memory=device.type == "cuda",
            persistent_workers=data.workers > 0,
            worker_init_fn=ignore_interrupts,
            generator=torch.Generator(),  # a resumed run must find the global generator unchanged
        )

    def batches(self, rows: Iterable[Tensor], epoch: int, start: int = 0) -> Iterator[Batch]:
        """One batch per row of image indices, from row `start` on."""
        self._keys.rows, self._keys.epoch = list(rows)[start:], epoch
        for collated in self._loader:
            if isinstance(collated, CovpoolError):
                raise collated
            x, y, index, reasons = collated
            broken = torch.tensor([bool(reason) for reason in reasons])
            if self._refuses and broken.any():
                first = int(broken.nonzero()[0])
                raise BrokenImage(self._images.paths[int(index[first])], reasons[first])
            x, y = (tensor.to(self._device, non_blocking=True) for tensor in (x, y))
            yield Batch(x, y, index, broken)


def collate(attempts: list[Sample | CovpoolError]) -> Collated | CovpoolError:
    """Stack samples into a batch, or return the first error among them."""
    samples = []
    for attempt in attempts:
        if isinstance(attempt, CovpoolError):
            return attempt
        samples.append(attempt)
    y, index = (torch.tensor([getattr(sample, name) for sample in samples]) for name in ("y", "index"))
    return torch.stack([sample.x for sample in samples]), y, index, [sample.reason for sample in samples]


def ignore_interrupts(worker: int) -> None:
    """Ignore Ctrl-C in a worker: the terminal sends it to every process, and the parent stops its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
