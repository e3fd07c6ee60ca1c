"""Summary of a probe: accuracies with intervals, and which pools cannot be distinguished."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import zeros_like

from covpool.engine.evaluation import Interval, paired_bootstrap
from covpool.studies.probe._result import ProbeResult, rights

Group = Literal["best", "worse", "diverged", "failed"]
GROUPS: dict[Group, str] = {
    "best": "not distinguishable from the best",
    "worse": "worse than the best",
    "diverged": "diverged",
    "failed": "failed",
}


@dataclass(frozen=True)
class PoolSummary:
    """One pool over all seeds.

    Attributes:
        pool: Label of the pool.
        group: Group of the pool. Pools of a group are not ranked.
        top1: Mean accuracy over the seeds.
        interval: 95 % interval of the accuracy over seeds and test images.
        to_best: 95 % interval of the difference to the pool with the highest mean.
        to_reference: 95 % interval of the difference to the reference pool; None without one.
        results: One result per seed.
        note: A warning, or the reason of a failure.
    """

    pool: str
    group: Group
    top1: float = 0.0
    interval: Interval = (0.0, 0.0)
    to_best: Interval = (0.0, 0.0)
    to_reference: Interval | None = None
    results: tuple[ProbeResult, ...] = ()
    note: str = ""

    def cost(self, name: str) -> float | None:
        """Return a measured cost of one batch."""
        return next((one.costs[name] for one in self.results if name in one.costs), None)

    @property
    def seconds(self) -> float:
        """Mean time of a training."""
        return sum(one.seconds for one in self.results) / max(len(self.results), 1)


def summarize(results: Iterable[ProbeResult], *, reference: str = "avg") -> list[PoolSummary]:
    """Summarize every pool, sorted by group and then by the size of the representation.

    A pool is in the group of the best if the paired bootstrap interval of its difference to the highest mean contains
    zero. A pool with a seed that failed or diverged is not compared with the others.

    Args:
        results: Results of `probe`, with the same seeds for every pool.
        reference: Pool that the others are compared with, besides the best.
    """
    by_pool: dict[str, list[ProbeResult]] = {}
    for one in results:
        by_pool.setdefault(one.pool, []).append(one)
    sound = {pool: own for pool, own in by_pool.items() if not any(r.failed or r.diverged_at is not None for r in own)}
    best = max(sound, key=lambda pool: _mean(sound[pool]), default=None)
    rows = []
    for pool, own in by_pool.items():
        if pool not in sound or best is None:
            rows.append(_unsound(pool, own))
            continue
        right = rights(own)
        to_best = paired_bootstrap(right, rights(sound[best]))
        rows.append(
            PoolSummary(
                pool,
                "best" if to_best[1] >= 0 else "worse",
                _mean(own),
                paired_bootstrap(right, zeros_like(right)),
                to_best,
                paired_bootstrap(right, rights(sound[reference])) if reference in sound else None,
                tuple(own),
                _edge(own[0]),
            )
        )
    order = list(GROUPS)
    return sorted(rows, key=lambda row: (order.index(row.group), row.results[0].size, row.pool))


def _mean(results: Sequence[ProbeResult]) -> float:
    return sum(one.top1 for one in results) / len(results)


def _unsound(pool: str, results: list[ProbeResult]) -> PoolSummary:
    failed = next((one.failed for one in results if one.failed), "")
    if failed:
        return PoolSummary(pool, "failed", results=tuple(results), note=failed)
    lost = ", ".join(f"seed {one.seed} at step {one.diverged_at}" for one in results if one.diverged_at is not None)
    right = rights(results)
    interval = paired_bootstrap(right, zeros_like(right))
    note = f"loss not finite: {lost}"
    return PoolSummary(pool, "diverged", _mean(results), interval, results=tuple(results), note=note)


def _edge(result: ProbeResult) -> str:
    """Warn if the best learning rate may be outside the range that was tried."""
    tried = sorted(map(float, result.lr_tried))
    at_edge = len(tried) > 1 and result.lr in (tried[0], tried[-1])
    return "lr at the edge of those tried" if at_edge else ""
