"""`covpool train`: train a network by a recipe."""

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from covpool._errors import CovpoolError
from covpool.cli._collector import uncollected
from covpool.cli._fabric import import_fabric
from covpool.cli._options import DataFolder, RecipeName, data_overrides
from covpool.cli._output import next_command, say, write_run_report
from covpool.cli._training_bar import training_bar

if TYPE_CHECKING:
    from covpool.engine.training import Result
    from covpool.recipe import Recipe


def command(
    recipe: RecipeName = "",
    settings: list[str] | None = None,
    *,
    data: DataFolder = "",
    out: Annotated[Path | None, typer.Option("--out", "--run")] = None,
    resume: Path | None = None,
    report: bool = True,
    dry_run: bool = False,
) -> None:
    """Train or fine-tune a network as a recipe says. Settings after the recipe change it.

    Several GPUs: torchrun --nproc-per-node 8 -m covpool train RECIPE_FILE ...

    Args:
        settings: Settings that replace those of the recipe, such as optimizer.lr=0.01.
        out: Folder of the run. The default is runs/NAME. Under torchrun use --out, not --run.
        resume: Folder of a stopped run to continue.
        report: Write report.html at the end.
        dry_run: Print the recipe with every setting, without training.
    """
    with uncollected():
        from covpool.recipe import to_toml

        chosen = _chosen_recipe(recipe, [*(settings or []), *data_overrides(data)], out, resume)
        if dry_run:
            typer.echo(to_toml(chosen), nl=False)
            return
        import_fabric()
        from covpool.engine import leave_processes
        from covpool.engine.training import train

    folder = resume or out or Path("runs", chosen.name)
    is_first = os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0"
    console = Console(quiet=not is_first)
    with training_bar(console) as bar:
        result = train(chosen, folder, resume=resume is not None, on_event=bar)
    leave_processes()
    say(console, _summary(result))
    if not is_first:
        return
    from covpool.data.sets import open_data
    from covpool.engine.training import find_checkpoint

    if report:
        # The recipe in the folder may name the old place of data that were moved before this resume.
        write_run_report(folder, console, open_data(chosen.data))
    say(console, next_command(find_checkpoint(folder)))


def _chosen_recipe(recipe: str, settings: list[str], out: Path | None, resume: Path | None) -> "Recipe":
    from covpool.recipe import read_recipe

    if resume is not None and out is not None:
        raise CovpoolError("a run is resumed in its own folder: give --resume or --out, not both")
    if resume is not None:
        return _resumed(resume, [text for text in (recipe, *settings) if text])
    if not recipe:
        raise CovpoolError("`covpool train` needs a recipe, or --resume and the folder of a run")
    return read_recipe(recipe, settings)


def _resumed(run: Path, settings: list[str]) -> "Recipe":
    from covpool.recipe import read_recipe

    import_fabric()
    from covpool.engine.training import CHANGEABLE, recipe_file

    for setting in settings:
        if "=" not in setting:
            raise CovpoolError(f"a run is resumed with the recipe in its folder: leave {setting!r} out")
        if not any(fnmatchcase(setting.partition("=")[0], key) for key in CHANGEABLE):
            raise CovpoolError(
                f"{setting!r} cannot change in a resumed run; only {', '.join(CHANGEABLE)} can: start a new run"
            )
    return read_recipe(recipe_file(run), settings)


def _summary(result: "Result") -> str:
    epochs = "1 epoch" if result.epochs == 1 else f"{result.epochs} epochs"
    lines = [f"{epochs}, {result.seconds:.0f} s of training", *_accuracy(result), f"everything is in {result.run}"]
    return "\n".join(lines)


def _accuracy(result: "Result") -> list[str]:
    """The test accuracy and how its epoch was chosen, in lines of at most 80 characters."""
    top1 = f"test top-1 {result.metrics['top1']:.2%}" if "top1" in result.metrics else "test classes unknown"
    if not result.best_epoch:
        return []
    if result.best_on == "validation":
        return [f"{top1}, of epoch {result.epoch}, the best on the validation set ({result.best:.2%})"]
    if result.best_epoch == result.epoch:
        return [f"{top1} after the last epoch"]
    best = f"best on test: {result.best:.2%} after epoch {result.best_epoch}"
    return [f"{top1} after the last epoch", f"{best}; chosen on test images, so too optimistic"]
