"""What the page shows of a run of `covpool fit`."""

from dataclasses import dataclass
from typing import Any

from covpool.io import Checkpoint
from covpool.report._facts import Fact, setting_in_words
from covpool.studies.fit import Fit


@dataclass(frozen=True)
class FitSection:
    """A fit on frozen features.

    Attributes:
        rows: The cross-validation of every candidate, best first.
        chosen: The candidate that was chosen.
        settings: The settings that differ from their defaults.
        seconds: Time of the fit.
    """

    rows: list[dict[str, Any]]
    chosen: dict[str, Any]
    settings: list[Fact]
    seconds: float

    def is_chosen(self, row: dict[str, Any]) -> bool:
        """Whether a row is the chosen candidate."""
        return all(row[key] == self.chosen[key] for key in ("pool", "size", "level"))


def fit_section(checkpoint: Checkpoint) -> FitSection | None:
    """Read what a checkpoint keeps of its fit; None for a checkpoint of a training."""
    notes: dict[str, Any] = checkpoint.training.notes if checkpoint.training else {}
    if "fit" not in notes:
        return None
    found = Fit(**notes["fit"])
    defaults = Fit(data=found.data)
    settings = [
        Fact(name, setting_in_words(value), setting_in_words(getattr(defaults, name)))
        for name, value in found
        if value != getattr(defaults, name)
    ]
    rows = sorted(notes["table"], key=lambda row: -row["accuracy"])
    return FitSection(rows, notes["chosen"], settings, notes["seconds"])
