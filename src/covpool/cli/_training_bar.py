"""A progress bar for the events of a training run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from covpool.cli._interrupt import INTERRUPTED, interrupts
from covpool.cli._output import make_bar, say

if TYPE_CHECKING:
    from covpool.engine.training import Event

WAITING = 0.2  # share of an epoch spent waiting for images from which it is worth saying so


@contextmanager
def training_bar(console: Console, remedy: str = "") -> Iterator["Callable[[Event], None]"]:
    """Show the events of trainings; yields their receiver. A training that the user has stopped ends the command.

    Args:
        console: Console to draw on.
        remedy: What is said after the words of the stopped training.
    """
    from covpool.engine import leave_processes
    from covpool.engine.training import Stopped

    try:
        with TrainingBar(console) as bar:
            yield interrupts.watching(bar)
    except Stopped as stopped:
        leave_processes()
        say(console, f"{stopped}{remedy}")
        raise typer.Exit(INTERRUPTED) from None


class TrainingBar:
    """Shows the events of `covpool.engine.training.train`: a bar for the steps, a line for every epoch.

    Args:
        console: Console to draw on.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = make_bar(console)
        self._steps = self._bar.add_task("training", total=None, news="")
        self._advised = False
        self._caching = self._bar.add_task("decoding images", total=None, news="", visible=False)

    def __enter__(self) -> "TrainingBar":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar.tasks[self._steps].total is None:  # an error before the first step: do not leave an empty bar
            self._bar.update(self._steps, visible=False)
        self._bar.stop()

    def __call__(self, event: "Event") -> None:
        name = event["event"]
        if name == "stage":
            self._bar.update(self._steps, total=event["total_steps"], completed=event["step"])
            for note in event["notes"]:
                say(self._console, note)
        elif name == "tick":
            self._bar.update(self._steps, completed=event["step"], description=f"epoch {event['epoch']}")
        elif name == "step":
            self._bar.update(self._steps, news=_step(event))
        elif name == "epoch":
            say(self._console, _epoch(event))
            self._bar.update(self._steps, news=_result(event["train_loss"], event["train_top1"]))
            self._advise(event)
        elif name == "broken":
            say(self._console, f"skipping an image that cannot be read: {event['path']}")
        elif name == "stopping":
            say(self._console, "saving, then stopping; press Ctrl-C again to stop at once")
        elif name == "caching":
            done, count = event["done"], event["count"]
            self._bar.update(
                self._caching, description=event["what"], completed=done, total=count, visible=done < count
            )

    def _advise(self, event: "Event") -> None:
        """Say once that reading images takes much of the time."""
        waiting = event.get("waited", 0.0) / max(event["seconds"], 1e-9)
        if waiting > WAITING and not self._advised:
            self._advised = True
            remedy = "raise data.workers or set data.cache"
            say(self._console, f"{waiting:.0%} of the time is waiting for images: {remedy}")


def _step(event: "Event") -> str:
    return f"{_result(event['loss'], event['accuracy'])}  {event['images_per_s']:.0f} images/s"


def _result(loss: float, accuracy: float) -> str:
    return f"loss {loss:.3f}  accuracy {accuracy:.1%}"


def _epoch(event: "Event") -> str:
    """One line of at most 80 characters: training loss and accuracy, test or validation accuracy, seconds."""
    part, prefix = ("validation", "validation_") if "validation_top1" in event else ("test", "")
    top1, top5 = (event.get(f"{prefix}top{k}") for k in (1, 5))
    told = top5 is not None and top5 < 1  # it is 1 whenever there are five classes or fewer
    found = "not evaluated" if top1 is None else f"{top1:.2%}" + (f", top-5 {top5:.2%}" if told else "")
    training = f"loss {event['train_loss']:.3f}, training {event['train_top1']:.1%}"
    seconds = event["seconds"] + event.get("evaluation_seconds", 0.0)
    return f"epoch {event['epoch']}: {training}, {part} {found}, {seconds:.0f} s"
