"""What came of the trainings: accuracies with their intervals, and differences to average pooling."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from covpool.data.sets import Splits, open_data
from covpool.demo._trainings import BASELINE, Training
from covpool.diagnostics import Spectra
from covpool.engine.evaluation import Interval, LoadedCheckpoint, paired_bootstrap
from covpool.engine.training import LAST_CHECKPOINT
from covpool.report import History, Series, predict_test_set, sample_spectra

NAMES = {"avg": "average (GAP)", "cov": "plain covariance", "bcnn": "B-CNN", "isqrt": "iSQRT-COV"}


@dataclass(frozen=True)
class PoolResult:
    """One pool.

    Attributes:
        pool: its name.
        top1: mean test accuracy after the last epoch.
        seeds: the accuracy of each.
        interval: of the mean, 95 %: had other tiles and other seeds been drawn.
        difference: in accuracy to average pooling; None for that itself.
        difference_interval: of it, by the same tiles and seeds of both.
        size: of the pooled vector.
        parameters: of the network.
        lr: learning rate.
        seconds: of one training.
        curve: mean test accuracy of the seeds over the epochs.
        spectra: of the first seed's network.
    """

    pool: str
    top1: float
    seeds: list[float]
    interval: Interval
    difference: float | None
    difference_interval: Interval | None
    size: int
    parameters: int
    lr: float
    seconds: float
    curve: Series
    spectra: Spectra

    @property
    def name(self) -> str:
        return NAMES[self.pool]


def gather(trainings: Sequence[Training]) -> list[PoolResult]:
    """The rows of the table from the folders of finished trainings: logs, and last checkpoints judged anew."""
    splits = open_data(trainings[0].recipe.data)
    by_pool: dict[str, list[Training]] = {}
    for training in trainings:
        by_pool.setdefault(training.pool, []).append(training)
    right = {pool: torch.stack([_right(t, splits) for t in group]) for pool, group in by_pool.items()}
    return [_row(group, right[pool], right[BASELINE], splits) for pool, group in by_pool.items()]


def verdict(row: PoolResult) -> str:
    """What may be said of a pool against average pooling."""
    if row.difference is None or row.difference_interval is None:
        return "the baseline"
    low, high = row.difference_interval
    if low <= 0 <= high:
        return "no difference beyond the noise"
    return "better than average pooling here" if low > 0 else "worse than average pooling here"


def _row(
    trainings: Sequence[Training],
    right: Tensor,  # (seeds, tiles)
    baseline: Tensor,  # (seeds, tiles)
    splits: Splits,
) -> PoolResult:
    first = trainings[0]
    histories = [History.read(training.run) for training in trainings]
    network = _checkpoint(first.run).network
    is_baseline = first.pool == BASELINE
    return PoolResult(
        pool=first.pool,
        top1=float(right.mean()),
        seeds=right.mean(1).tolist(),
        interval=paired_bootstrap(right, torch.zeros_like(right)),
        difference=None if is_baseline else float((right - baseline).mean()),
        difference_interval=None if is_baseline else paired_bootstrap(right, baseline),
        size=network.pool.out_features,
        parameters=sum(p.numel() for p in network.parameters()),
        lr=first.recipe.optimizer.lr,
        seconds=fmean(history.end["seconds"] for history in histories if history.end),
        curve=_mean_curve([history.of_epochs("top1", NAMES[first.pool]) for history in histories]),
        spectra=sample_spectra(_checkpoint(first.run), first.recipe, splits.test, "cpu"),
    )


def _right(training: Training, splits: Splits) -> Tensor:  # (tiles,), 1 where right
    found = predict_test_set(_checkpoint(training.run), training.recipe, splits, "cpu")
    return (found.predicted == found.targets).double()


def _checkpoint(run: Path) -> LoadedCheckpoint:
    return LoadedCheckpoint.read(run / LAST_CHECKPOINT, "cpu")


def _mean_curve(curves: Sequence[Series]) -> Series:
    return Series(curves[0].label, curves[0].x, [fmean(ys) for ys in zip(*(c.y for c in curves), strict=True)])
