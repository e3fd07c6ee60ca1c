"""Summary of a probe: accuracies with intervals, sorted, and the pool that the training images recommend."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from covpool.engine.evaluation import Interval, bootstrap
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
        group: Whether the pool can be distinguished from the best.
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

    def cost_per_image(self, name: str) -> float | None:
        """Return a measured cost of one image."""
        batch = self.cost(name)
        return None if batch is None else batch / self.results[0].batch_size

    @property
    def seconds(self) -> float:
        """Mean time of a fit."""
        return sum(one.seconds for one in self.results) / max(len(self.results), 1)

    @property
    def held_out(self) -> float | None:
        """Mean accuracy on held-out training images; None if nothing was chosen on them."""
        found = [one.held_out for one in self.results if one.held_out is not None]
        return sum(found) / len(found) if found else None


def summarize(results: Iterable[ProbeResult], *, reference: str = "avg") -> list[PoolSummary]:
    """Summarize every pool, sorted by accuracy; pools that diverged or failed come last.

    A pool is in the group of the best if the paired bootstrap interval of its difference to the highest mean contains
    zero. A pool with a seed that failed or diverged is not compared with the others.

    Args:
        results: Results of `probe`: the same seeds for every pool, or a single one.
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
        to_best = bootstrap(right - rights(sound[best]))
        rows.append(
            PoolSummary(
                pool,
                "best" if to_best[1] >= 0 else "worse",
                _mean(own),
                bootstrap(right),
                to_best,
                bootstrap(right - rights(sound[reference])) if reference in sound else None,
                tuple(own),
                _remarks(own),
            )
        )
    order = list(GROUPS)
    return sorted(rows, key=lambda row: (max(order.index(row.group), order.index("worse")), -row.top1, row.pool))


def recommended(rows: Iterable[PoolSummary]) -> PoolSummary | None:
    """Return the pool with the highest accuracy on held-out training images; the test images have no part in it."""
    compared = [row for row in rows if row.group in ("best", "worse") and row.held_out is not None]
    return max(compared, key=lambda row: row.held_out or 0.0, default=None)


def _mean(results: Sequence[ProbeResult]) -> float:
    return sum(one.top1 for one in results) / len(results)


def _unsound(pool: str, results: list[ProbeResult]) -> PoolSummary:
    failed = next((one.failed for one in results if one.failed), "")
    if failed:
        return PoolSummary(pool, "failed", results=tuple(results), note=failed)
    lost = ", ".join(f"seed {one.seed} at step {one.diverged_at}" for one in results if one.diverged_at is not None)
    interval = bootstrap(rights(results))
    note = f"loss not finite: {lost}"
    return PoolSummary(pool, "diverged", _mean(results), interval, results=tuple(results), note=note)


def _remarks(results: Sequence[ProbeResult]) -> str:
    """Return what a reader must know about the results."""
    first = results[0]
    notes = [f"random weights, {len(results)} seeds"] * first.random
    tried = sorted(map(float, first.lr_tried))
    notes += ["lr at the edge of those tried"] * (len(tried) > 1 and first.lr in (tried[0], tried[-1]))
    notes += ["classifier did not converge"] * (not all(one.converged for one in results))
    return "; ".join(notes)
