"""`covpool sweep`: train a grid of settings."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from covpool._errors import CovpoolError
from covpool.cli._collector import uncollected
from covpool.cli._fabric import import_fabric
from covpool.cli._options import DataFolder, RecipeName, data_overrides
from covpool.cli._output import UNKNOWN, make_folder, say, table
from covpool.cli._training_bar import training_bar

if TYPE_CHECKING:
    from covpool.studies.sweep import Outcome, PlannedTraining, SweepRow

RUNS, TABLE, PLOT = "sweep.jsonl", "sweep.csv", "sweep.png"


def command(
    recipe: RecipeName,
    settings: list[str] | None = None,
    *,
    data: DataFolder = "",
    out: Path | None = None,
    dry_run: bool = False,
) -> None:
    """Train a grid of settings and show the mean and deviation over seeds and splits. A second call resumes it.

    The exit code is 1 if a run failed.

    Example: covpool sweep finetune pool.iterations=[1,3,5] seed=[0,1,2] --data birds

    Args:
        settings: Settings: table.key=value, or table.key=\\[a,b,c] for several values to try.
        out: Folder of the sweep. The default is runs/NAME-sweep.
        dry_run: List the runs of the sweep, without training.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise CovpoolError("a sweep runs in one process: under torchrun call `covpool train` once per setting")

    with uncollected():
        import_fabric()
        from covpool.studies.sweep import plan

    folder = out or Path("runs", f"{Path(recipe).stem}-sweep")
    planned = plan(recipe, [*(settings or []), *data_overrides(data)], folder)
    if dry_run:
        typer.echo("\n".join(str(one.run) for one in planned))
        return
    make_folder(folder / RUNS)
    console = Console()
    outcomes = _train(planned, console)
    _show(outcomes, folder, console)
    if any(outcome.failed for outcome in outcomes):
        raise typer.Exit(1)


def _train(planned: "list[PlannedTraining]", console: Console) -> "list[Outcome]":
    from covpool.studies.sweep import sweep

    def announce(number: int, one: "PlannedTraining") -> None:
        say(console, f"{number + 1} of {len(planned)}: {one.run.name}")

    outcomes = []
    with training_bar(console, "; run the same command again to resume the sweep") as bar:
        for outcome in sweep(planned, on_run=announce, on_event=bar):
            outcomes.append(outcome)
            if outcome.failed:
                say(console, f"failed: {outcome.failed}")
    return outcomes


def _show(outcomes: "list[Outcome]", folder: Path, console: Console) -> None:
    """Write the table, the records and the plot, and print the table and the failures."""
    import torch

    from covpool._records import environment
    from covpool.studies.sweep import plot_sweep, tabulate, write_csv, write_lines

    rows = tabulate(outcomes)
    about = environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    write_lines(outcomes, folder / RUNS, about)
    write_csv(rows, folder / TABLE)
    console.print(_table(rows))
    for outcome in outcomes:
        if outcome.failed:
            say(console, f"{outcome.run.name} failed: {outcome.failed}")
    written = [TABLE, RUNS]
    if any(row.sound for row in rows):
        plot_sweep(rows, folder / PLOT, folder.name)
        written.append(PLOT)
    say(console, f"in {folder}: {', '.join(written)}")


def _table(rows: "list[SweepRow]") -> Table:
    told = ["top1"]
    if any(value < 1 for row in rows for value in row.values("top5")):  # it is 1 with five classes or fewer
        told.append("top5")
    cells = []
    for row in rows:
        counts = (str(len(row.outcomes)), str(len(row.outcomes) - len(row.sound) or UNKNOWN))
        cells.append((*row.point.values(), *counts, *(_mean(row, name) for name in told)))
    keys, accuracies = list(rows[0].point), [f"{name.replace('top', 'top-')} %" for name in told]
    caption = "test accuracy of the last epoch, or of the one chosen on validation images; mean ± standard deviation"
    return table((*keys, "runs", "failed", *accuracies), cells, left=len(keys), caption=caption)


def _mean(row: "SweepRow", name: str) -> str:
    mean, deviation = row.mean(name), row.deviation(name)
    if mean is None:
        return UNKNOWN
    return f"{100 * mean:.2f}" + ("" if deviation is None else f" ± {100 * deviation:.2f}")
