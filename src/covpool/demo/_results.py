"""The results of the demo: accuracies with their intervals, and differences to average pooling."""

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
    """The result of one pool over all seeds.

    Attributes:
        pool: Name of the pool.
        top1: Mean test accuracy after the last epoch.
        seeds: Test accuracy of each seed.
        interval: 95 % interval of the mean over tiles and seeds.
        difference: Accuracy minus that of average pooling; None for average pooling itself.
        difference_interval: 95 % interval of the difference, paired by tile and seed.
        size: Length of the representation.
        parameters: Number of parameters of the network.
        lr: Learning rate.
        seconds: Duration of one run.
        curve: Mean test accuracy of the seeds, by epoch.
        spectra: Spectra of the first seed's network.
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
    """Collect the results of finished runs from their logs and last checkpoints, which are evaluated again."""
    splits = open_data(trainings[0].recipe.data)
    by_pool: dict[str, list[Training]] = {}
    for training in trainings:
        by_pool.setdefault(training.pool, []).append(training)
    correct = {pool: torch.stack([_correct(t, splits) for t in group]) for pool, group in by_pool.items()}
    return [_result(group, correct[pool], correct[BASELINE], splits) for pool, group in by_pool.items()]


def verdict(result: PoolResult) -> str:
    """Say how a pool compares with average pooling."""
    if result.difference is None or result.difference_interval is None:
        return "the baseline"
    low, high = result.difference_interval
    if low <= 0 <= high:
        return "no difference beyond the noise"
    return "better than average pooling here" if low > 0 else "worse than average pooling here"


def _result(
    trainings: Sequence[Training],
    correct: Tensor,  # (seeds, tiles)
    baseline: Tensor,  # (seeds, tiles)
    splits: Splits,
) -> PoolResult:
    first = trainings[0]
    histories = [History.read(training.run) for training in trainings]
    network = _checkpoint(first.run).network
    is_baseline = first.pool == BASELINE
    return PoolResult(
        pool=first.pool,
        top1=float(correct.mean()),
        seeds=correct.mean(1).tolist(),
        interval=paired_bootstrap(correct, torch.zeros_like(correct)),
        difference=None if is_baseline else float((correct - baseline).mean()),
        difference_interval=None if is_baseline else paired_bootstrap(correct, baseline),
        size=network.pool.out_features,
        parameters=sum(p.numel() for p in network.parameters()),
        lr=first.recipe.optimizer.lr,
        seconds=fmean(history.end["seconds"] for history in histories if history.end),
        curve=_mean_curve([history.of_epochs("top1", NAMES[first.pool]) for history in histories]),
        spectra=sample_spectra(_checkpoint(first.run), first.recipe, splits.test, "cpu"),
    )


def _correct(training: Training, splits: Splits) -> Tensor:  # (tiles,), 1 where correct
    found = predict_test_set(_checkpoint(training.run), training.recipe, splits, "cpu")
    return (found.predicted == found.targets).double()


def _checkpoint(run: Path) -> LoadedCheckpoint:
    return LoadedCheckpoint.read(run / LAST_CHECKPOINT, "cpu")


def _mean_curve(curves: Sequence[Series]) -> Series:
    return Series(curves[0].label, curves[0].x, [fmean(ys) for ys in zip(*(c.y for c in curves), strict=True)])
