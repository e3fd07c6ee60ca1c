"""The folder of the demo: tiles, runs, and the plot and page made from them."""

from collections.abc import Sequence
from pathlib import Path

from covpool._errors import CovpoolError
from covpool.demo._page import write_page
from covpool.demo._plots import plot_png
from covpool.demo._results import PoolResult, gather
from covpool.demo._tiles import write_tiles
from covpool.demo._trainings import Training, plan

TILES, PLOT, PAGE = "tiles", "demo.png", "demo.html"


def prepare(out: Path, *, seeds: int = 3, epochs: int | None = None) -> list[Training]:
    """Cut the tiles and plan the runs.

    Args:
        out: Folder of the demo.
        seeds: Number of seeds for each pool.
        epochs: Number of epochs; None uses the recipe's.
    """
    if out.exists() and not out.is_dir():
        raise CovpoolError(f"--out must be a folder; {out} is a file")
    if out.is_dir() and any(out.iterdir()) and not (out / TILES).is_dir():
        raise CovpoolError(f"--out must be a new folder or one of a demo; {out} contains other files")
    trainings = plan(out / "runs", out / TILES, seeds=seeds, epochs=epochs)
    write_tiles(out / TILES)
    return trainings


def conclude(out: Path, trainings: Sequence[Training]) -> list[PoolResult]:
    """Evaluate the finished runs, and write the plot and the page."""
    results = gather(trainings)
    plot_png(results, out / PLOT)
    write_page(out / PAGE, results, trainings[-1].recipe)
    return results
