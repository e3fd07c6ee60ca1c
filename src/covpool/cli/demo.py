"""`covpool demo`: average and covariance pooling compared on real images, in minutes on a CPU."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from covpool.cli._bars import make_bar
from covpool.cli._errors import INTERRUPTED
from covpool.cli._output import percent_interval, say, table

if TYPE_CHECKING:
    from covpool.demo import PoolResult, Training
    from covpool.engine.training import Event


def command(
    *,
    out: Path = Path("demo_out"),
    jobs: Annotated[int, typer.Option(min=0)] = 0,
    seeds: Annotated[int, typer.Option(min=1)] = 3,
    epochs: Annotated[int | None, typer.Option(min=1)] = None,
) -> None:
    """Train a small network with four pools on tiles of real photographs: no download, minutes on a CPU.

    Finished runs are kept: after Ctrl-C, the same command continues.

    Args:
        out: Folder for the tiles, the runs, the plot and the page.
        jobs: Number of runs at the same time. The default, 0, is one per core.
        seeds: Number of seeds for each pool.
        epochs: Number of epochs. The default is the one in the recipe.
    """
    from covpool._check import require
    from covpool._cores import usable_cores

    for module, extra in (("lightning.fabric", "train"), ("skimage", "plots"), ("matplotlib", "plots")):
        require(module, extra)
    from covpool.demo import PAGE, PLOT, conclude, prepare, train_all, verdict

    console, start = Console(), time.perf_counter()
    trainings = prepare(out, seeds=seeds, epochs=epochs)
    try:
        with TrainingsBar(console, trainings) as bar:
            train_all(trainings, jobs=jobs or usable_cores(), on_event=bar)
    except KeyboardInterrupt:
        done = sum(training.is_finished for training in trainings)
        say(console, f"stopped after {done} of {len(trainings)} runs; run the same command again to continue")
        raise typer.Exit(INTERRUPTED) from None
    results = conclude(out, trainings)
    console.print(_table(results))
    for result in results[1:]:
        say(console, f"{result.name}: {verdict(result)}")
    say(console, f"plot: {out / PLOT}\npage: {out / PAGE}\n{time.perf_counter() - start:.0f} s in total")


class TrainingsBar:
    """One bar for the steps of all runs, and a line for each finished run.

    Args:
        console: Console to draw on.
        trainings: All runs of the demo.
    """

    def __init__(self, console: Console, trainings: "Sequence[Training]") -> None:
        from covpool.recipe import total_steps

        self._console = console
        self._steps = {training.run: 0 for training in trainings}
        self._bar = make_bar(console)
        tiles = len(list(Path(trainings[0].recipe.data.root, "train").glob("*/*")))
        steps_per_run = total_steps(trainings[0].recipe, tiles)
        left = sum(not training.is_finished for training in trainings)
        self._task = self._bar.add_task(f"{left} runs", total=steps_per_run * left, news="starting", visible=left > 0)

    def __enter__(self) -> "TrainingsBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def __call__(self, training: "Training", event: "Event") -> None:
        name = f"{training.pool}, seed {training.seed}"
        if event["event"] == "tick":
            self._steps[training.run] = event["step"]
            self._bar.update(self._task, completed=sum(self._steps.values()), news=f"{name}, epoch {event['epoch']}")
        elif event["event"] == "end":
            say(self._console, f"{name}: {event['top1']:.1%} of the test tiles, {event['seconds']:.0f} s")


def _table(results: "Sequence[PoolResult]") -> Table:
    rows = []
    for found in results:
        difference = "" if found.difference is None else f"{100 * found.difference:+.1f}"
        bounds = found.difference_interval
        rows.append(
            (
                *(found.pool, f"{100 * found.top1:.1f}", percent_interval(found.interval)),
                *(difference, "" if bounds is None else percent_interval(bounds, "{:+.1f}")),
                *(f"{found.size:,}", f"{found.seconds:.0f} s"),
            )
        )
    return table(
        ("pool", "accuracy", "interval", "minus avg", "interval", "size", "time"),
        rows,
        title="Which photograph does a tile come from? One small network, trained with each pool",
        caption="accuracy and 95 % intervals in %; size: length of the representation; time: one run on one core\n"
        "only the learning rate differs between pools; it is chosen on the validation tiles",
    )
