"""`covpool demo`: average and covariance pooling compared on real pictures, in minutes on a CPU."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from covpool._check import require
from covpool._cores import usable_cores
from covpool.cli.errors import INTERRUPTED
from covpool.engine.training import Event
from covpool.recipe import total_steps

if TYPE_CHECKING:
    from covpool.demo import Row, Training


def demo(
    out: Annotated[Path, typer.Option(help="folder of the tiles, the trainings, the plot and the page")] = Path(
        "demo_out"
    ),
    jobs: Annotated[int, typer.Option(min=0, help="trainings at the same time; 0 = one per core")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="of every pool")] = 3,
    epochs: Annotated[int | None, typer.Option(min=1, help="of every training, instead of the recipe's")] = None,
) -> None:
    """Train a small network with four pools on tiles of real photographs: no download, minutes on a CPU.

    What is finished stays: after Ctrl-C the same command goes on.
    """
    for module, extra in (("lightning.fabric", "train"), ("skimage", "plots"), ("matplotlib", "plots")):
        require(module, extra)
    from covpool.demo import (  # seconds, which the other commands need not wait
        PAGE,
        PLOT,
        conclude,
        prepare,
        train_all,
        verdict,
    )

    console, start = Console(), time.perf_counter()
    trainings = prepare(out, seeds=seeds, epochs=epochs)
    try:
        with TrainingsBar(console, trainings) as bar:
            train_all(trainings, jobs=jobs or usable_cores(), on_event=bar)
    except KeyboardInterrupt:
        done = sum(training.is_finished for training in trainings)
        console.print(f"stopped after {done} of {len(trainings)} trainings; the same command goes on from here")
        raise typer.Exit(INTERRUPTED) from None
    rows = conclude(out, trainings)
    console.print(_table(rows))
    for row in rows[1:]:
        console.print(f"{row.name}: {verdict(row)}", highlight=False)
    console.print(f"plot: {out / PLOT}\npage: {out / PAGE}", highlight=False, soft_wrap=True)
    console.print(f"{time.perf_counter() - start:.0f} s in all", highlight=False)


class TrainingsBar:
    """One bar for the steps of all trainings, and a line for each that ends.

    Args:
        console: where it is drawn.
        trainings: all of them.
    """

    def __init__(self, console: Console, trainings: "Sequence[Training]") -> None:
        self._console = console
        self._steps = {training.run: 0 for training in trainings}
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[news]}"))
        self._bar = Progress(*columns, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), console=console)
        tiles = len(list(Path(trainings[0].recipe.data.root, "train").glob("*/*")))
        of_one = total_steps(trainings[0].recipe, tiles)
        left = sum(not training.is_finished for training in trainings)
        self._task = self._bar.add_task(f"{left} trainings", total=of_one * left, news="starting", visible=left > 0)

    def __enter__(self) -> "TrainingsBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, training: "Training", event: Event) -> None:
        if event["event"] == "tick":
            self._steps[training.run] = event["step"]
            news = f"{training.pool}, seed {training.seed}, epoch {event['epoch']}"
            self._bar.update(self._task, completed=sum(self._steps.values()), news=news)
        elif event["event"] == "end":
            found = f"{training.pool}, seed {training.seed}: {event['top1']:.1%} of the test tiles"
            self._console.print(f"{found}, {event['seconds']:.0f} s", highlight=False)


def _table(rows: "Sequence[Row]") -> Table:
    title = "From which photograph is a tile? One small network, trained with each pool"
    caption = (
        "in %; intervals: 95 %; size: numbers kept; time: one training on one core\n"
        "all but the learning rate is the same, and that was chosen on other tiles"
    )
    table = Table(title=title, caption=caption)
    for heading in ("pool", "accuracy", "interval", "to avg", "interval", "size", "time"):
        table.add_column(heading, justify="left" if heading == "pool" else "right", no_wrap=True)
    for row in rows:
        difference = "" if row.difference is None else f"{100 * row.difference:+.1f}"
        between = "" if row.difference_interval is None else _interval(row.difference_interval, "+.1f")
        accuracy = (f"{100 * row.top1:.1f}", _interval(row.interval, ".1f"))
        table.add_row(row.pool, *accuracy, difference, between, f"{row.size:,}", f"{row.seconds:.0f} s")
    return table


def _interval(interval: tuple[float, float], form: str) -> str:
    return " to ".join(format(100 * end, form) for end in interval)
