"""Eigenvalues of the covariances of a whole test set, before and after normalization (figure 7)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from covpool._errors import CovpoolError
from covpool._figures import color, new_figure
from covpool._progress import OnProgress, ignore
from covpool.data import Data, Images
from covpool.data.pipeline import EvalBatches
from covpool.diagnostics import Spectra, log_histogram, pool_spectra
from covpool.engine import infer, select_rows, with_progress
from covpool.engine.evaluation import LoadedCheckpoint

SPAN = (-12.0, 6.0)  # log10 of the first and last edge; eigenvalues outside count in the first or last bin
BINS = 180  # ten per decade
BATCH_SIZE = 8


@dataclass(frozen=True)
class EigenvalueCount:
    """The distribution of eigenvalues over equal steps of log10.

    Attributes:
        which: Eigenvalues of the covariance ("before") or of the normalized matrix ("after").
        images: Number of images.
        eigenvalues: Number of eigenvalues.
        zero: Share of eigenvalues that are zero, or negative as after a matrix logarithm.
        largest: Largest eigenvalue.
        edges: Edges of the bins, in log10.
        share: Share of all eigenvalues in each bin.
    """

    which: Literal["before", "after"]
    images: int
    eigenvalues: int
    zero: float
    largest: float
    edges: tuple[float, ...]
    share: tuple[float, ...]


def image_spectra(
    checkpoint: LoadedCheckpoint, images: Images, data: Data, device: str, on_progress: OnProgress = ignore
) -> Iterator[Spectra]:
    """Yield the eigenvalues before and after the pool of a checkpoint, batch by batch. Broken images are left out.

    Args:
        checkpoint: Checkpoint with the network.
        images: Images to run it on.
        data: How they are read.
        device: Device that runs the network.
        on_progress: Called with the number of finished batches.
    """
    network, reading = checkpoint.network, data.changed(broken="skip", cache="none")
    batches = EvalBatches(images, checkpoint.augment, reading, batch_size=BATCH_SIZE, device=device)

    def forward(x: Tensor) -> Spectra:
        features = network.forward_features(x)
        return pool_spectra(network.pool, *(features if isinstance(features, tuple) else (features,)))

    counted = with_progress(batches, "eigenvalues", on_progress)
    for one in infer(network, select_rows(counted, lambda batch: ~batch.broken), forward):
        yield one.outputs[0]


def count_eigenvalues(spectra: Iterator[Spectra]) -> list[EigenvalueCount]:
    """Count the eigenvalues before the pool, and after it if it has a normalized matrix.

    Only one batch is in memory at a time.

    Args:
        spectra: Eigenvalues of the images, from `image_spectra`.
    """
    counts: dict[str, _Count] = {}
    for one in spectra:
        for which, values in (("before", one.before), ("after", one.after)):
            if values is not None:
                counts.setdefault(which, _Count()).add(values)
    if not counts:
        raise CovpoolError("no image of the test set could be read")
    return [count.finished("before" if which == "before" else "after") for which, count in counts.items()]


class _Count:
    """A histogram that grows with every batch."""

    def __init__(self) -> None:
        self.images, self.total, self.zero, self.largest = 0, 0, 0.0, 0.0
        self.bins = torch.zeros(BINS, dtype=torch.float64)

    def add(self, values: Tensor) -> None:
        found = log_histogram(values, bins=BINS, span=SPAN)
        self.images += len(values)
        self.total += values.numel()
        self.zero += found.zero * values.numel()
        self.bins += found.share * values.numel()
        self.largest = max(self.largest, float(values.max()))

    def finished(self, which: Literal["before", "after"]) -> EigenvalueCount:
        edges = torch.linspace(*SPAN, BINS + 1, dtype=torch.float64).tolist()
        shares = (self.bins / self.total).tolist()
        about = (self.images, self.total, self.zero / self.total, self.largest)
        return EigenvalueCount(which, *about, tuple(edges), tuple(shares))


def plot_eigenvalues(counts: Sequence[EigenvalueCount], title: str, path: Path) -> None:
    """Plot the share of the eigenvalues over their size, on the logarithmic axis of the paper.

    Args:
        counts: Distributions of `count_eigenvalues`.
        title: Title of the plot.
        path: Image file to write.
    """
    figure = new_figure(6.5, 4.5)
    panel = figure.subplots()
    for number, count in enumerate(counts):
        edges = [10**edge for edge in count.edges]
        label = f"{count.which} normalization ({count.zero:.1%} zero)"
        shares = [100 * share for share in count.share]
        panel.stairs(shares, edges, fill=True, alpha=0.5, color=color(number), label=label)
    filled = [i for count in counts for i, share in enumerate(count.share) if share > 0]
    if filled:
        panel.set_xlim(10 ** counts[0].edges[min(filled)] / 2, 10 ** counts[0].edges[max(filled) + 1] * 2)
    panel.set_xscale("log")
    panel.set_xlabel("eigenvalue")
    panel.set_ylabel("share of the eigenvalues, %")
    panel.set_title(title, fontsize="medium", wrap=True)
    panel.legend(fontsize="small")
    figure.savefig(path, dpi=110)
