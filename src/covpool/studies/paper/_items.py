"""The tables and figures of the paper, read from `items.toml`: its numbers, and the recipes that make ours."""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal

from covpool._errors import CovpoolError, did_you_mean
from covpool._settings import Settings

NOT_TRAINED = "-"  # in place of a number that the paper does not have


class Column(Settings):
    """A column of an item: a result of trainings, a measurement on this machine, or a number of the paper alone."""

    label: str
    """Heading."""
    figure: Literal["", "top1", "top3", "top5"] = ""
    """Accuracy that the trainings of a row report; empty for other columns."""
    error: bool = False
    """Whether it is shown as an error."""
    set: str = ""
    """Data set that the recipe of a row is combined with."""
    classifier: Literal["softmax", "svm"] = "softmax"
    """The network's own classifier, or SVMs on its representations."""
    crops: Literal[1, 10] = 1
    """Number of crops per image."""
    splits: int = 1
    """Number of official splits that are trained and averaged over."""
    measured: str = ""
    """Name of the quantity that is measured on this machine; empty for other columns."""


class Row(Settings):
    """A row of a table, or a point of a figure."""

    label: str
    """What is trained."""
    paper: tuple[str, ...]
    """The paper's number in each column; empty if it has none."""
    recipe: str = ""
    """Recipe that trains it; empty for a number that the paper quotes."""
    settings: tuple[str, ...] = ()
    """Settings on top of the recipe."""
    fuses: tuple[str, ...] = ()
    """Labels of the rows whose networks are fused: their probabilities are averaged."""
    x: float | None = None
    """Place on the horizontal axis of a figure."""
    line: str = ""
    """Line of a figure that the point belongs to."""
    baseline: bool = False
    """Whether it is a horizontal line in a figure."""
    measure: str = ""
    """Name of the measured operation in `covpool bench decompositions`, for a row without a network."""


class MeasuredBatch(Settings):
    """Images per batch whose time and memory are measured."""

    cuda: int = 128
    """On a GPU."""
    cpu: int = 4
    """On a CPU."""


class Item(Settings):
    """A numbered table or figure of the paper."""

    name: str
    """Its number, such as "table 8" or "figure 6a"."""
    title: str
    """What it shows."""
    columns: tuple[Column, ...] = ()
    """Columns of the table, or the quantity of a figure."""
    rows: tuple[Row, ...] = ()
    """Rows of the table, or the points of a figure."""
    data: tuple[str, ...] = ()
    """Data sets that the trainings need, those of the pre-training included."""
    x_label: str = ""
    """Label of the horizontal axis of a figure."""
    x_is_batch: bool = False
    """Whether the place of a row on that axis is the number of images per batch that it is measured with."""
    batch: MeasuredBatch = MeasuredBatch()
    """Images per measured batch, where the rows do not say."""
    eigenvalues: bool = False
    """Whether it shows the eigenvalues of a trained network."""
    remark: str = ""
    """What differs from the paper, and what cannot be made."""

    @property
    def cells(self) -> list[tuple[Row, Column, str]]:
        """Row, column and the paper's number of every cell, row by row."""
        return [(row, *pair) for row in self.rows for pair in zip(self.columns, row.paper, strict=True)]

    @property
    def is_measured(self) -> bool:
        """Whether some of its columns are measured on this machine."""
        return any(column.measured for column in self.columns)


@cache
def list_items() -> tuple[Item, ...]:
    """Return all items, tables first.

    >>> [item.name for item in list_items()][::15]
    ['table 1', 'figure 6a']
    """
    text = files("covpool.studies.paper").joinpath("items.toml").read_text("utf-8")
    return tuple(_as_item(entry) for entry in tomllib.loads(text)["items"])


def find_item(name: str) -> Item:
    """Return the item with a name such as "table 8"."""
    known = {item.name: item for item in list_items()}
    if name not in known:
        raise CovpoolError(f"the paper has no {name}{did_you_mean(name, known)}; `covpool paper --list` lists all")
    return known[name]


def number_in(text: str) -> float | None:
    """Return the number that a cell of the paper begins with; None if there is none.

    >>> number_in("74.0 ± 0.8"), number_in("does not converge")
    (74.0, None)
    """
    found = re.match(r"\+?(\d+(?:\.\d+)?)", text)
    return float(found[1]) if found else None


def _as_item(entry: dict[str, object]) -> Item:
    """Make an item of its TOML table; lists become tuples."""
    return Item.model_validate(entry, strict=False)
