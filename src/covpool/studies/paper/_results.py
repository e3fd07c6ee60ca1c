"""Our numbers for the cells of an item, from the folders of finished runs, beside the paper's."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from covpool._progress import ignore
from covpool.data import Data
from covpool.data.sets import open_data
from covpool.engine.evaluation import EvaluationProtocol, evaluate
from covpool.engine.training import find_checkpoint
from covpool.recipe import RECIPE_FILE, read_recipe
from covpool.studies.paper._items import Column, Item, Row
from covpool.studies.paper._kept import keep, read_kept
from covpool.studies.paper._trainings import Training, cell_trainings, item_trainings

Measured = Mapping[str, Mapping[str, float]]  # row label -> quantity -> value


@dataclass(frozen=True)
class Cell:
    """One number of an item.

    Attributes:
        paper: The paper's number as printed; empty if it has none.
        value: Ours, in percent for accuracies and errors; None if it is not there yet.
        deviation: Standard deviation over splits; None for a single training.
        done: Number of trainings behind it that are finished.
        needed: Number of trainings behind it.
    """

    paper: str
    value: float | None = None
    deviation: float | None = None
    done: int = 0
    needed: int = 0

    @property
    def text(self) -> str:
        """Our number in words: its value, or how much of it is done."""
        if self.value is None:
            return f"{self.done} of {self.needed}" if self.needed > 1 else ""
        if self.deviation is not None:
            return f"{self.value:.1f} ± {self.deviation:.1f}"
        return f"{self.value:.2f}" if self.needed else f"{self.value:.4g}"


def read_cells(item: Item, out: Path) -> list[list[Cell]]:
    """Return the cells of an item, row by row."""
    measured = read_measured(item, out)
    found = [_fused_cell(item, *cell, out) if cell[0].fuses else _cell(*cell, out, measured) for cell in item.cells]
    width = len(item.columns)
    return [found[i * width : (i + 1) * width] for i in range(len(item.rows))]


def count_finished(item: Item, out: Path) -> tuple[int, int]:
    """Return how many trainings of an item are finished, and how many it has."""
    trainings = item_trainings(item)
    return sum(training.result(out) is not None for training in trainings), len(trainings)


def measured_file(item: Item, out: Path) -> Path:
    """Return the file with the quantities of an item that were measured on this machine."""
    return out / "paper" / f"{item.name.replace(' ', '-')}.json"


def read_measured(item: Item, out: Path) -> Measured:
    """Return the measured quantities by row and name; empty if nothing is measured yet."""
    found: Measured | None = read_kept(measured_file(item, out), "rows")
    return found or {}


def evaluate_item(item: Item, out: Path, *, device: str, on_evaluate: Callable[[str], None] = ignore) -> None:
    """Evaluate finished trainings by SVM or ten crops, where a column asks for it, and the fusions of the item.

    Args:
        item: Table or figure.
        out: Folder of all runs.
        device: Device that runs the networks.
        on_evaluate: Called with what is evaluated next.
    """
    for row, column, paper in item.cells:
        for training in cell_trainings(row, column, paper):
            on_evaluate(training.run(out).name)
            evaluate_finished(training, column, out, device=device)
    on_evaluate("fusions")
    evaluate_fusions(item, out, device=device)


def evaluate_finished(training: Training, column: Column, out: Path, *, device: str) -> bool:
    """Evaluate the checkpoint of a finished training by SVM or ten crops, where a column needs it and it is not done.

    Args:
        training: Training to evaluate.
        column: Column that says how.
        out: Folder of all runs.
        device: Device that runs the network.

    Returns:
        Whether something was evaluated.
    """
    run = training.run(out)
    path = run / _evaluation_file(column)
    if training.result(out) is None or _is_own(column) or path.is_file():
        return False
    data: Data = read_recipe(run / RECIPE_FILE).data.changed(cache="none")
    protocol = EvaluationProtocol(
        crops=None if column.crops == 1 else column.crops,
        classifier=column.classifier,
        device=device,
        features=run / "features",
    )
    found = evaluate([find_checkpoint(run)], open_data(data), data, protocol)
    keep(path, found.as_json())
    return True


def evaluate_fusions(item: Item, out: Path, *, device: str) -> None:
    """Evaluate the fusions of an item whose trainings are finished, and that are not evaluated yet.

    Args:
        item: Table or figure.
        out: Folder of all runs.
        device: Device that runs the networks.
    """
    for row in item.rows:
        path, trainings = _fusion_file(item, row, out), _fused_trainings(item, row)
        if not trainings or path.is_file() or any(training.result(out) is None for training in trainings):
            continue
        data: Data = read_recipe(trainings[0].run(out) / RECIPE_FILE).data.changed(cache="none")
        checkpoints = [find_checkpoint(training.run(out)) for training in trainings]
        found = evaluate(checkpoints, open_data(data), data, EvaluationProtocol(device=device))
        keep(path, found.as_json())


def _fused_trainings(item: Item, row: Row) -> list[Training]:
    return [one for cell in item.cells if cell[0].label in row.fuses for one in cell_trainings(*cell)]


def _fusion_file(item: Item, row: Row, out: Path) -> Path:
    return out / "paper" / f"{item.name} {row.label}.json".replace(" ", "-")


def _fused_cell(item: Item, row: Row, column: Column, paper: str, out: Path) -> Cell:
    value = read_kept(_fusion_file(item, row, out), column.figure)
    if value is None:
        return Cell(paper)
    return Cell(paper, 100 * (1 - value if column.error else value), None, 1, 1)


def _cell(row: Row, column: Column, paper: str, out: Path, measured: Measured) -> Cell:
    if column.measured:
        return Cell(paper, measured.get(row.label, {}).get(column.measured))
    trainings = cell_trainings(row, column, paper)
    found = [value for training in trainings if (value := _accuracy(training, column, out)) is not None]
    done, needed = len(found), len(trainings)
    if not trainings or done < needed:
        return Cell(paper, None, None, done, needed)
    percent = [100 * (1 - value if column.error else value) for value in found]
    deviation = statistics.stdev(percent) if needed > 1 else None
    return Cell(paper, statistics.mean(percent), deviation, done, needed)


def _accuracy(training: Training, column: Column, out: Path) -> float | None:
    """The accuracy of a finished training, evaluated as the column says."""
    if _is_own(column):
        return (training.result(out) or {}).get(column.figure)
    found: float | None = read_kept(training.run(out) / _evaluation_file(column), column.figure)
    return found


def _is_own(column: Column) -> bool:
    """Whether the evaluation of the training itself is what the column shows."""
    return column.classifier == "softmax" and column.crops == 1


def _evaluation_file(column: Column) -> str:
    return f"evaluation-{column.classifier}-{column.crops}.json"
