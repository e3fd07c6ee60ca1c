"""The log of a run as series over epochs."""

from bisect import bisect_left
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from covpool._records import read_lines
from covpool.engine.training import LOG_FILE

POINTS = 400  # largest number of points in a curve: more are not visible and make the page slow


@dataclass(frozen=True)
class Series:
    """One curve."""

    label: str
    x: list[float]
    y: list[float]

    def thinned(self, points: int = POINTS) -> "Series":
        """Average neighboring points, so that at most `points` are left.

        >>> Series("", [1, 2, 3, 4, 5], [0, 2, 4, 6, 9]).thinned(3).y
        [1.0, 5.0, 9.0]
        """
        group = -(-len(self.x) // points)
        if group <= 1:
            return self
        parts = [slice(i, i + group) for i in range(0, len(self.x), group)]
        return Series(self.label, [fmean(self.x[p]) for p in parts], [fmean(self.y[p]) for p in parts])


@dataclass(frozen=True)
class History:
    """The events of a log, by kind."""

    steps: list[dict[str, Any]]
    epochs: list[dict[str, Any]]
    broken: list[dict[str, Any]]
    end: dict[str, Any] | None

    @staticmethod
    def read(run: Path) -> "History":
        """Read the log of a run."""
        events = read_lines(run / LOG_FILE)
        kinds = {name: [e for e in events if e["event"] == name] for name in ("step", "epoch", "broken", "end")}
        return History(kinds["step"], kinds["epoch"], kinds["broken"], kinds["end"][-1] if kinds["end"] else None)

    @property
    def has_epochs(self) -> bool:
        """Whether an epoch is complete. Before that, its number of steps is unknown and curves are drawn over steps."""
        return bool(self.epochs)

    def of_steps(self, key: str, label: str) -> Series:
        """A curve of a quantity that is logged with steps."""
        chosen = [e for e in self.steps if e.get(key) is not None]
        return Series(label, [self._epoch_at(e["step"]) for e in chosen], [float(e[key]) for e in chosen]).thinned()

    def of_epochs(self, key: str, label: str) -> Series:
        """A curve of a quantity that is logged with epochs."""
        chosen = [e for e in self.epochs if e.get(key) is not None]
        return Series(label, [float(e["epoch"]) for e in chosen], [float(e[key]) for e in chosen])

    def last(self, key: str) -> float | None:
        """The last value of a quantity that is logged with epochs."""
        return next((float(e[key]) for e in reversed(self.epochs) if e.get(key) is not None), None)

    def _epoch_at(self, step: int) -> float:
        """The position of a step in epochs; an incomplete epoch is taken to be as long as the one before."""
        if not self.epochs:
            return float(step)
        ends = [0, *(e["step"] for e in self.epochs)]
        numbers = [self.epochs[0]["epoch"] - 1, *(e["epoch"] for e in self.epochs)]
        i = min(max(bisect_left(ends, step), 1), len(ends) - 1)
        return float(numbers[i - 1] + (step - ends[i - 1]) / (ends[i] - ends[i - 1]) * (numbers[i] - numbers[i - 1]))
