"""The folder of the demo: out/tiles, out/runs, and what is made of them, demo.png and demo.html."""

from collections.abc import Sequence
from pathlib import Path

from covpool._errors import CovpoolError
from covpool.demo._page import write_page
from covpool.demo._pictures import write_tiles
from covpool.demo._plots import plot_png
from covpool.demo._results import PoolResult, gather
from covpool.demo._trainings import Training, plan

TILES, PLOT, PAGE = "tiles", "demo.png", "demo.html"


def prepare(out: Path, *, seeds: int = 3, epochs: int | None = None) -> list[Training]:
    """Cut the tiles and say what is to be trained; arguments as for `plan`."""
    if out.exists() and not out.is_dir():
        raise CovpoolError(f"--out must be a folder; {out} is a file")
    if out.is_dir() and any(out.iterdir()) and not (out / TILES).is_dir():
        raise CovpoolError(f"{out} holds other things than a demo: name a new folder with --out")
    trainings = plan(out / "runs", out / TILES, seeds=seeds, epochs=epochs)
    write_tiles(out / TILES)
    return trainings


def conclude(out: Path, trainings: Sequence[Training]) -> list[PoolResult]:
    """Judge finished trainings, and write the plot and the page."""
    rows = gather(trainings)
    plot_png(rows, out / PLOT)
    write_page(out / PAGE, rows, trainings[-1].recipe)
    return rows
