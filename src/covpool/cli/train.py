"""`covpool train`: a recipe in, checkpoints and a log out."""

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from covpool._check import require
from covpool._errors import CovpoolError
from covpool.cli.errors import INTERRUPTED
from covpool.cli.progress import ProgressBar
from covpool.engine.training import Stopped
from covpool.recipe import RECIPE_FILE, Recipe, read_recipe, to_toml

if TYPE_CHECKING:
    from covpool.engine.training import Result

# What may differ when a run is resumed: nothing of the result depends on it.
CHANGEABLE = ("data.root", "data.workers", "devices.*", "train.log_every", "train.save_every")


def train_command(
    recipe: Annotated[str, typer.Argument(help="a TOML file, or the name of a recipe of covpool's")] = "",
    settings: Annotated[list[str] | None, typer.Argument(help="table.key=value, as in optimizer.lr=0.01")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "--run", help="folder of the run, runs/NAME by default; torchrun knows --out only"),
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="the folder of a run to go on with")] = None,
    report: Annotated[bool, typer.Option(help="write report.html at the end")] = True,
    dry_run: Annotated[bool, typer.Option(help="print the recipe with every setting, and stop")] = False,
) -> None:
    """Train or fine-tune a network: the recipe says all, and settings after it change it.

    Several GPUs: torchrun --nproc-per-node 8 -m covpool train RECIPE_FILE ...
    """
    if resume is not None and out is not None:
        raise CovpoolError("a run is resumed in its own folder: give --resume or --out, not both")
    if resume is not None:
        chosen = _resumed(resume, [text for text in (recipe, *(settings or [])) if text])
    elif recipe:
        chosen = read_recipe(recipe, settings or [])
    else:
        raise CovpoolError("`covpool train` needs a recipe, or --resume and the folder of a run")
    if dry_run:
        typer.echo(to_toml(chosen), nl=False)
        return
    require("lightning.fabric", "train")
    from covpool.engine import leave_processes  # seconds, which the other commands need not wait
    from covpool.engine.training import train

    folder = resume or out or Path("runs", chosen.name)
    is_first = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"
    console = Console(quiet=not is_first)
    try:
        with ProgressBar(console) as bar:
            result = train(chosen, folder, resume=resume is not None, on_event=bar)
    except Stopped as stopped:
        leave_processes()
        console.print(str(stopped), markup=False, soft_wrap=True)
        raise typer.Exit(INTERRUPTED) from None
    leave_processes()
    console.print(_summary(result), markup=False, highlight=False, soft_wrap=True)
    if report and is_first:
        _report(folder, chosen, console)


def _resumed(run: Path, settings: list[str]) -> Recipe:
    for setting in settings:
        if "=" not in setting:
            raise CovpoolError(f"a run is resumed with the recipe in its folder: leave {setting!r} out")
        if not any(fnmatchcase(setting.partition("=")[0], key) for key in CHANGEABLE):
            raise CovpoolError(
                f"{setting!r} cannot change in a run that is resumed; only {', '.join(CHANGEABLE)} can: start a new run"
            )
    if not (run / RECIPE_FILE).is_file():
        raise CovpoolError(f"{run} is not the folder of a run: it has no {RECIPE_FILE}")
    return read_recipe(run / RECIPE_FILE, settings)


def _report(run: Path, recipe: Recipe, console: Console) -> None:
    require("jinja2", "train")
    from covpool.data.sets import open_data
    from covpool.report import write_report

    with console.status("judging the test images for the report"):
        path = write_report(run, splits=open_data(recipe.data))  # where they lie now, which the folder may not know
    console.print(f"report: {path}", markup=False, highlight=False, soft_wrap=True)


def _summary(result: "Result") -> str:
    best = f"best top-1 {result.best:.2%} after epoch {result.best_epoch}; " if result.best_epoch else ""
    epochs = "1 epoch" if result.epochs == 1 else f"{result.epochs} epochs"
    return f"{epochs}, {result.seconds:.0f} s of training; {best}everything is in {result.run}"
