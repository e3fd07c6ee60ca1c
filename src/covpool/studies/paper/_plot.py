"""Figures of the paper, in its axes: the error over a setting, with baselines as horizontal lines."""

from collections.abc import Sequence
from pathlib import Path

from covpool._errors import CovpoolError
from covpool._figures import color, new_figure
from covpool.studies.paper._items import Item, Row, number_in
from covpool.studies.paper._results import Cell

Points = list[tuple[float, float]]


def plot_item(item: Item, cells: Sequence[Sequence[Cell]], path: Path) -> None:
    """Plot the first column of a figure: ours with filled marks, the paper's numbers with open ones.

    Args:
        item: Figure.
        cells: Its cells, from `read_cells`.
        path: Image file to write.
    """
    first = [(row, own[0]) for row, own in zip(item.rows, cells, strict=True) if own]
    if not any(cell.value is not None or number_in(cell.paper) is not None for _, cell in first):
        raise CovpoolError(f"{item.name} has no number to plot yet")
    figure = new_figure(6.5, 4.5)
    panel = figure.subplots()
    lines = dict.fromkeys(row.line for row, _ in first if not row.baseline)
    for number, line in enumerate(lines):
        own = [(row, cell) for row, cell in first if row.line == line and not row.baseline]
        for points, style, who in (
            (_points(own, ours=True), {"marker": "o"}, "ours"),
            (_points(own, ours=False), {"marker": "o", "markerfacecolor": "none", "linestyle": ":"}, "paper"),
        ):
            if points:
                panel.plot(
                    *zip(*points, strict=True), color=color(number), label=", ".join(filter(None, (line, who))), **style
                )
    for number, (row, cell) in enumerate([pair for pair in first if pair[0].baseline], len(lines)):
        for value, dashes, who in ((cell.value, "-", "ours"), (number_in(cell.paper), ":", "paper")):
            if value is not None:
                panel.axhline(value, color=color(number), linestyle=dashes, linewidth=1, label=f"{row.label}, {who}")
    column = item.columns[0]
    panel.set_xlabel(item.x_label)
    panel.set_ylabel(column.label if column.measured else f"{column.label}, %")
    panel.set_title(f"{item.name}: {item.title}", fontsize="medium", wrap=True)
    panel.grid(alpha=0.3)
    panel.legend(fontsize="small")
    figure.savefig(path, dpi=110)


def _points(own: Sequence[tuple[Row, Cell]], *, ours: bool) -> Points:
    found = [(row.x, cell.value if ours else number_in(cell.paper)) for row, cell in own]
    return [(x, y) for x, y in found if x is not None and y is not None]
