"""What the results of a probe say together: accuracies with intervals, and which pools cannot be told apart."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import zeros_like

from covpool.engine.evaluation import Interval, paired_bootstrap
from covpool.studies.probe._run import Run, rights

Group = Literal["best", "worse", "diverged", "failed"]
GROUPS: dict[Group, str] = {
    "best": "not distinguishable from the best",
    "worse": "worse than the best",
    "diverged": "diverged",
    "failed": "failed",
}


@dataclass(frozen=True)
class Row:
    """One pool over all seeds.

    Attributes:
        pool: its label.
        group: where it stands; within a group nothing is ranked.
        top1: mean over the seeds.
        interval: of it, 95 %, over other seeds and other test pictures.
        to_best: the interval of its accuracy minus that of the pool with the highest mean.
        to_reference: of its accuracy minus that of the reference pool; None without one.
        runs: one per seed.
        note: what is to be known of it.
    """

    pool: str
    group: Group
    top1: float = 0.0
    interval: Interval = (0.0, 0.0)
    to_best: Interval = (0.0, 0.0)
    to_reference: Interval | None = None
    runs: tuple[Run, ...] = ()
    note: str = ""

    def cost(self, name: str) -> float | None:
        """What was measured of one batch."""
        return next((run.costs[name] for run in self.runs if name in run.costs), None)

    @property
    def seconds(self) -> float:
        return sum(run.seconds for run in self.runs) / max(len(self.runs), 1)


def summarize(runs: Iterable[Run], *, reference: str = "avg") -> list[Row]:
    """A row per pool, group by group, within a group by the size of the representation.

    A pool belongs to the best where the paired bootstrap interval of its difference to the highest mean holds zero. A
    pool with a seed that failed or diverged is not compared with the others.

    Args:
        runs: of `probe`; every pool with the same seeds.
        reference: the pool that the others are compared with besides the best.
    """
    by_pool: dict[str, list[Run]] = {}
    for run in runs:
        by_pool.setdefault(run.pool, []).append(run)
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
            Row(
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
    return sorted(rows, key=lambda row: (order.index(row.group), row.runs[0].size, row.pool))


def _mean(runs: Sequence[Run]) -> float:
    return sum(run.top1 for run in runs) / len(runs)


def _unsound(pool: str, runs: list[Run]) -> Row:
    failed = next((run.failed for run in runs if run.failed), "")
    if failed:
        return Row(pool, "failed", runs=tuple(runs), note=failed)
    lost = ", ".join(f"seed {run.seed} at step {run.diverged_at}" for run in runs if run.diverged_at is not None)
    right = rights(runs)
    interval = paired_bootstrap(right, zeros_like(right))
    return Row(pool, "diverged", _mean(runs), interval, runs=tuple(runs), note=f"loss not finite: {lost}")


def _edge(run: Run) -> str:
    """A warning where the best learning rate may lie outside of those that were tried."""
    tried = sorted(map(float, run.lr_tried))
    at_edge = len(tried) > 1 and run.lr in (tried[0], tried[-1])
    return "lr at the edge of those tried" if at_edge else ""
