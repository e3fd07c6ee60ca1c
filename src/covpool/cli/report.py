"""`covpool report`: the HTML report of a run."""

from pathlib import Path

from rich.console import Console

from covpool._errors import require
from covpool.cli._options import chosen_device
from covpool.cli._output import say


def command(
    run: Path,
    *,
    root: str = "",
    device: str = "",
) -> None:
    """Write RUN/report.html: curves, accuracy, mistakes with images, spectra, settings and timings in one file.

    Args:
        run: Folder of a run, finished or not.
        root: Folder of the data set, if it is not where the recipe of the run says.
        device: Device to run on: cpu or cuda. The default is the one in the run's recipe.
    """
    require("jinja2", "train")
    from covpool.data.sets import open_data
    from covpool.report import read_run_recipe, write_report

    moved = open_data(read_run_recipe(run).data.changed(root=root)) if root else None
    console = Console()
    with console.status("evaluating the test images"):
        path = write_report(run, splits=moved, device=chosen_device(device) if device else "auto")
    say(console, f"wrote {path}")
