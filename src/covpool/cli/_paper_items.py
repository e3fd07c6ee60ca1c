"""The tables and figures of the paper on the terminal: what is done, the trainings, the numbers and the plots."""

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from covpool._errors import CovpoolError
from covpool.cli._eigenvalues import show_eigenvalues
from covpool.cli._fabric import import_fabric
from covpool.cli._options import Device, chosen_device, named_folder
from covpool.cli._output import UNKNOWN, make_folder, say, table
from covpool.cli._training_bar import training_bar

if TYPE_CHECKING:
    from covpool.studies.paper import Item, PaperTraining

Roots = Annotated[list[str] | None, typer.Option(metavar="NAME=FOLDER")]
RUNS = Path("runs")


def show_items(runs: Path) -> None:
    """List all tables and figures, with the trainings that are finished and the data that they need."""
    import_fabric()
    from covpool.studies.paper import count_finished, list_items, measured_file

    rows = []
    for item in list_items():
        done, needed = count_finished(item, runs)
        state = f"{done} of {needed}" if needed else UNKNOWN
        measured = ("yes" if measured_file(item, runs).is_file() else "no") if item.is_measured else UNKNOWN
        rows.append((item.name, item.title, ", ".join(item.data) or UNKNOWN, state, measured))
    headings = ("item", "what it shows", "data", "trainings", "measured")
    Console().print(table(headings, rows, left=3, caption=f"runs in {runs}; `covpool paper table 8` shows one item"))


def item_command(kind: str) -> Callable[..., None]:
    """The command that runs the trainings of a table or figure, measures what it needs, and shows its numbers."""

    def make(
        number: str,
        settings: list[str] | None = None,
        *,
        data: Roots = None,
        out: Path = RUNS,
        measure: bool = False,
        seconds: float = 5.0,
        dry_run: bool = False,
        checkpoint: Path | None = None,
        device: Device = "",
    ) -> None:
        """Make a KIND of the paper: run its trainings, and print its numbers beside ours. A second call resumes it.

        Without data, it prints what is done. Pre-training on ImageNet is part of the trainings that start from it.

        The numbers of a figure are also plotted, in the paper's axes.

        Example: covpool paper table 8 --data imagenet=/data/imagenet --data cub=/data/CUB_200_2011

        Example: covpool paper figure 6a data.root=/data/imagenet

        Args:
            number: Number of the KIND. Tables are 1 to 15; figures, with their panels, are 6a, 6b, 6c, 7 and 8.
            settings: Settings for all trainings: table.key=value. data.root=FOLDER is the only data set of a KIND, or
                has one folder for each of several: cub, aircraft, cars, ...
            data: Folder of a data set, as in cub=/data/CUB_200_2011. Trainings without their data are not run.
            out: Folder of the runs. A finished run NAME of `covpool train` in it counts.
            measure: Measure times and memory on this machine for what shows them.
            seconds: Approximate time of each measurement, in seconds.
            dry_run: Print the command of each training that is missing, without training.
            checkpoint: Checkpoint, or folder of a run, whose eigenvalues are shown in figure 7, without a training.
        """
        import_fabric()
        from covpool.data.sets import list_sets
        from covpool.studies.paper import evaluate_item, find_item, plan_item

        item, console, typed = find_item(f"{kind} {number}"), Console(), settings or []
        if measure and not item.is_measured:
            raise CovpoolError(f"{item.name} has nothing to measure: leave --measure out")
        roots = [text.partition("=")[2] for text in typed if text.startswith("data.root=")]
        roots += [text.replace("=", ":", 1) for text in data or []]
        if checkpoint is not None:
            if not item.eigenvalues:
                raise CovpoolError(f"{item.name} shows no eigenvalues: leave --checkpoint out")
            show_eigenvalues(checkpoint, roots, _plot_file(item, out), chosen_device(device), console)
            return
        planned = plan_item(item, dict(named_folder(one, list_sets()) for one in data or []), typed, out)
        missing = [one for one in planned if not one.is_finished]
        if dry_run:
            for one in missing:
                typer.echo(_command(one, typed))
            return
        if any(one.recipe.data.root for one in missing):
            _train(planned, console)
        device = chosen_device(device)
        with console.status("evaluating") as status:
            evaluate_item(
                item, out, device=device, on_evaluate=lambda what: status.update(escape(f"evaluating {what}"))
            )
        if measure:
            _measure(item, out, device, seconds, console)
        _show(item, out, console)
        finished = [one.run for one in planned if one.is_finished]
        if item.eigenvalues and finished:
            show_eigenvalues(finished[-1], roots, _plot_file(item, out), device, console)
        missing = [one for one in planned if not one.is_finished]
        if missing:
            _tell_missing(missing, console)

    make.__doc__ = (make.__doc__ or "").replace("KIND", kind)
    return make


def _plot_file(item: "Item", out: Path) -> Path:
    from covpool.studies.paper import measured_file

    return measured_file(item, out).with_suffix(".png")


def _command(one: "PaperTraining", settings: list[str]) -> str:
    """The command that runs one training on its own, for instance on another machine."""
    recipe = one.recipe
    changes = [*one.training.settings, *(text for text in settings if not text.startswith("data.root="))]
    changes.append(f"data.root={recipe.data.root or 'FOLDER'}")
    if recipe.init.weights and not any(text.startswith("init.weights=") for text in settings):
        changes.append(f"init.weights={recipe.init.weights}")
    return shlex.join(["covpool", "train", one.training.recipe, *changes, "--out", str(one.run)])


def _train(planned: "list[PaperTraining]", console: Console) -> None:
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise CovpoolError("`covpool paper` trains in one process: run the commands of --dry-run under torchrun")
    from covpool.studies.paper import run_trainings

    def announce(number: int, one: "PaperTraining") -> None:
        say(console, f"{number + 1} of {len(planned)}: {one.run.name}")

    with training_bar(console, "; run the same command again to resume") as bar:
        for one, reason in run_trainings(planned, on_run=announce, on_event=bar):
            say(console, f"{one.run.name} failed: {reason}")


def _measure(item: "Item", out: Path, device: str, seconds: float, console: Console) -> None:
    """Measure every row of an item."""
    import torch

    from covpool.bench import processes_for
    from covpool.studies.paper import measure_item

    place = torch.device(device)
    processes = processes_for(place) if item.x_is_batch else 1
    if item.x_is_batch:
        say(console, "measuring in two processes, one per GPU" if processes > 1 else "measuring in one process")
    with console.status("measuring") as status:
        path = measure_item(
            *(item, out, place, seconds),
            processes=processes,
            on_row=lambda label: status.update(escape(f"measuring {label}")),
        )
    say(console, f"measured: {path}")


def _show(item: "Item", out: Path, console: Console) -> None:
    from covpool.studies.paper import plot_item, read_cells

    cells = read_cells(item, out)
    rows = []
    for row, own in zip(item.rows, cells, strict=True):
        rows.append((row.label, "paper", *(cell.paper or UNKNOWN for cell in own)))
        rows.append(("", "ours", *(cell.text or UNKNOWN for cell in own)))
    headings = ["", "", *(column.label for column in item.columns)]
    console.print(table(headings, rows, left=2, title=f"{item.name}: {item.title}"))
    if item.remark:
        say(console, item.remark)
    if item.x_label and any(cell.paper or cell.value is not None for own in cells for cell in own):
        path = make_folder(_plot_file(item, out))
        plot_item(item, cells, path)
        say(console, f"plot: {path}")


def _tell_missing(missing: "list[PaperTraining]", console: Console) -> None:
    names = sorted({one.recipe.data.name for one in missing if not one.recipe.data.root})
    needed = " ".join(f"--data {name}=FOLDER" for name in names)
    remedy = f"; to run them, add {needed}" if names else ""
    say(console, f"{len(missing)} trainings are missing{remedy}. --dry-run prints their commands")
