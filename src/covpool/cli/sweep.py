"""`covpool sweep`: a grid of trainings in, a table and a plot out."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from covpool._check import require
from covpool._errors import CovpoolError
from covpool.bench import environment
from covpool.cli.errors import INTERRUPTED
from covpool.cli.output import make_folder
from covpool.cli.progress import ProgressBar
from covpool.engine.training import Stopped

if TYPE_CHECKING:
    from covpool.studies.sweep import Outcome, Row

RUNS, TABLE, PLOT = "sweep.jsonl", "sweep.csv", "sweep.png"


def sweep_command(
    recipe: Annotated[str, typer.Argument(help="a TOML file, or the name of a recipe of covpool's")],
    settings: Annotated[
        list[str] | None, typer.Argument(help="table.key=value, or table.key=\\[a,b,c] for values to try")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="folder of the sweep, runs/NAME-sweep by default")] = None,
    dry_run: Annotated[bool, typer.Option(help="list the trainings, and stop")] = False,
) -> None:
    """Train a grid of settings; mean and deviation over seeds and splits. Called again, it goes on where it was.

    The exit code is 1 if one of the trainings failed.

    As in: covpool sweep finetune pool.iterations=[1,3,5] seed=[0,1,2] data.root=birds
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise CovpoolError("a sweep runs in one process: for torchrun call `covpool train` once for every setting")
    require("lightning.fabric", "train")
    from covpool.studies.sweep import Planned, plan, plot_sweep, sweep, tabulate, write_csv, write_lines

    folder = out or Path("runs", f"{Path(recipe).stem}-sweep")
    planned = plan(recipe, settings or [], folder)
    console = Console()
    if dry_run:
        typer.echo("\n".join(str(one.run) for one in planned))
        return
    make_folder(folder / RUNS)
    outcomes: list[Outcome] = []

    def announce(number: int, one: Planned) -> None:
        console.print(f"{number + 1} of {len(planned)}: {one.run.name}", markup=False, highlight=False)

    try:
        with ProgressBar(console) as bar:
            for outcome in sweep(planned, on_run=announce, on_event=bar):
                outcomes.append(outcome)
                if outcome.failed:
                    console.print(f"failed: {outcome.failed}", markup=False, highlight=False)
    except Stopped as stopped:
        console.print(f"{stopped}; the same command goes on with the sweep", markup=False)
        raise typer.Exit(INTERRUPTED) from None
    rows = tabulate(outcomes)
    about = environment(torch.device("cuda" if torch.cuda.is_available() else "cpu"), 0)
    del about["seed"]
    write_lines(outcomes, folder / RUNS, about)
    write_csv(rows, folder / TABLE)
    console.print(_table(rows))
    for outcome in outcomes:
        if outcome.failed:
            console.print(f"{outcome.run.name} failed: {outcome.failed}", markup=False, highlight=False)
    written = [TABLE, RUNS]
    if any(row.sound for row in rows):
        plot_sweep(rows, folder / PLOT, folder.name)
        written.append(PLOT)
    console.print(f"in {folder}: {', '.join(written)}", markup=False, highlight=False, soft_wrap=True)
    if any(outcome.failed for outcome in outcomes):
        raise typer.Exit(1)


def _table(rows: "list[Row]") -> Table:
    """Mean and standard deviation over seeds and splits."""
    table = Table(caption="mean ± standard deviation over seeds and splits; the last epoch's, not the best one's")
    keys = list(rows[0].point)
    for heading in (*keys, "trainings", "failed", "top-1 %", "top-5 %"):
        table.add_column(heading, justify="left" if heading in keys else "right", overflow="fold")
    for row in rows:
        counts = (str(len(row.outcomes)), str(len(row.outcomes) - len(row.sound) or "-"))
        table.add_row(*map(escape, row.point.values()), *counts, _figure(row, "top1"), _figure(row, "top5"))
    return table


def _figure(row: "Row", name: str) -> str:
    mean, deviation = row.mean(name), row.deviation(name)
    if mean is None:
        return "-"
    return f"{100 * mean:.2f}" + ("" if deviation is None else f" ± {100 * deviation:.2f}")
