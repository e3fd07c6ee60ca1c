"""`covpool demo`: average and covariance pooling compared on real images and sequences, in minutes on a CPU."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from covpool._errors import require
from covpool.cli._interrupt import INTERRUPTED
from covpool.cli._output import counting_bar, percent_interval, say, table

if TYPE_CHECKING:
    from covpool._progress import OnProgress
    from covpool.demo import Task, TaskComparison

GUIDANCE = (
    "Five data sets were tried for this demo. Covariance pooling does not always help: average pooling won on "
    "photographed texture tiles, and iSQRT-COV lost to it on JapaneseVowels."
)


def command(folder: Path | None = None, *, out: Path = Path("demo_out")) -> None:
    """Compare four pools on handwritten characters, on spoken digits and, if named, on a folder of your images.

    Nothing is downloaded. Data and the weights of the frozen network come from packages; if one is missing, the command
    prints how to install it.

    Args:
        folder: Folder of your own images, as a third part: train/CLASS and test/CLASS, or CLASS folders, which are
            split at random.
        out: Folder for the plot and the page.
    """
    for module, extra in (("lightning_fabric", "train"), ("torchvision", "models"), ("matplotlib", "plots")):
        require(module, extra)
    from covpool import demo

    console, start = Console(), time.perf_counter()
    demo.check_folder(out)
    demo.check_inputs(folder)
    parts: list[Callable[[OnProgress], Task]] = [demo.characters, demo.digits]
    if folder:
        parts.append(partial(demo.folder, folder))
    finished: list[TaskComparison] = []
    try:
        for number, make_task in enumerate(parts, 1):
            with counting_bar(console, "reading data") as on_progress:
                task = make_task(on_progress)
                choices = demo.choose(task, on_progress)
                say(
                    console, f"part {number}, settings chosen inside the training part; expected to win: {demo.CLAIMED}"
                )
                finished.append(demo.evaluate(task, choices))
            console.print(_table(finished[-1]))
            for result in finished[-1].results[1:]:
                say(console, f"{result.name}: {demo.verdict(result)} ({result.setting})")
            demo.write_results(out, finished)
    except KeyboardInterrupt:
        say(console, f"stopped after {len(finished)} of {len(parts)} parts")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if finished:
            say(console, f"plot: {out / demo.PLOT}\npage: {out / demo.PAGE}")
    say(console, f"{GUIDANCE}\n{time.perf_counter() - start:.0f} s in total")


def _table(comparison: "TaskComparison") -> Table:
    from covpool import demo

    rows = []
    for found in comparison.results:
        is_baseline = found is comparison.results[0]
        rows.append(
            (
                *(found.method + " *" * (found.method == demo.CLAIMED), f"{100 * found.accuracy:.1f}"),
                percent_interval(found.interval),
                "" if is_baseline else f"{100 * found.difference:+.1f}",
                "" if is_baseline else percent_interval(found.difference_interval, "{:+.1f}"),
                *(f"{found.size:,}", f"{found.seconds:.0f} s"),
            )
        )
    return table(
        ("method", "accuracy", "interval", "minus avg", "interval", "length", "time"),
        rows,
        left=1,
        title=comparison.task.title,
        caption=f"{comparison.tested:,} test {comparison.task.unit}; accuracy and 95 % intervals in %; "
        "* named before the test data were opened",
    )
