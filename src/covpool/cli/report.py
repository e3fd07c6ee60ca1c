"""`covpool report`: the HTML report of a run, or the comparison of two."""

from pathlib import Path

from rich.console import Console

from covpool._errors import CovpoolError, require
from covpool.cli._options import chosen_device
from covpool.cli._output import say


def command(
    runs: list[Path],
    *,
    root: str = "",
    device: str = "",
) -> None:
    """Write RUN/report.html: curves, accuracy, what decided, mistakes, spectra and settings in one file.

    Two runs are compared on the same test images: SECOND/comparison.html.

    Args:
        runs: Folder of a run, finished or not, or the folders of two runs to compare.
        root: Folder of the data set, if it is not where the recipe of the run says.
        device: Device to run on: cpu or cuda. The default is the one in the run's recipe.
    """
    require("jinja2", "train")
    from covpool.data.sets import Splits, open_data
    from covpool.engine.training import read_run_recipe
    from covpool.report import write_comparison, write_report

    if len(runs) > 2:
        raise CovpoolError(f"name one run, or two to compare; got {len(runs)}")

    def moved(run: Path) -> Splits:
        return open_data(read_run_recipe(run).data.changed(root=root))

    console = Console()
    on = chosen_device(device) if device else "auto"
    with console.status("evaluating the test images"):
        if len(runs) == 1:
            path = write_report(runs[0], splits=moved(runs[0]) if root else None, device=on)
        else:
            path = write_comparison(runs[0], runs[1], open_splits=moved if root else None, device=on)
    say(console, f"wrote {path}")
