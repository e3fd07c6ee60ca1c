"""`covpool report`: the page on a run, written anew."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from covpool._check import require
from covpool.cli.device_option import chosen_device


def report(
    run: Annotated[Path, typer.Argument(help="the folder of a run, finished or not")],
    root: Annotated[str, typer.Option(help="where the data lie now, if not where the recipe says")] = "",
    device: Annotated[str, typer.Option(help="cpu or cuda; the recipe's, else the GPU if there is one")] = "",
) -> None:
    """Write RUN/report.html: curves, accuracy, mistakes with pictures, spectra, settings, timings, in one file."""
    require("jinja2", "train")
    from covpool.data.sets import open_data
    from covpool.recipe import RECIPE_FILE, read_recipe
    from covpool.report import write_report  # seconds, which the other commands need not wait

    moved = open_data(read_recipe(run / RECIPE_FILE, [f"data.root={root}"]).data) if root else None
    console = Console()
    with console.status("judging the test images"):
        path = write_report(run, splits=moved, device=chosen_device(device) if device else "auto")
    console.print(f"wrote {path}", markup=False, highlight=False)
