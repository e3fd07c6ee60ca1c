"""A progress bar for the events of a training run."""

from typing import TYPE_CHECKING, Any

from rich.console import Console

from covpool.cli._bars import make_bar
from covpool.cli._output import say

if TYPE_CHECKING:
    from covpool.engine.training import Event


class TrainingBar:
    """Shows the events of `covpool.engine.training.train`: a bar for the steps, a line for every epoch.

    Args:
        console: Console to draw on.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = make_bar(console)
        self._steps = self._bar.add_task("training", total=None, news="")
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
        elif name == "broken":
            say(self._console, f"skipping an image that cannot be read: {event['path']}")
        elif name == "stopping":
            say(self._console, "saving, then stopping; press Ctrl-C again to stop at once")
        elif name == "caching":
            done, count = event["done"], event["count"]
            self._bar.update(
                self._caching, description=event["what"], completed=done, total=count, visible=done < count
            )


def _step(event: "Event") -> str:
    speed = f"{event['images_per_s']:.0f} images/s"
    if event["compute_images_per_s"] > 1.1 * event["images_per_s"]:
        waiting = 1 - event["images_per_s"] / event["compute_images_per_s"]
        speed += f", {waiting:.0%} of the time waiting for images"
    return f"loss {event['loss']:.3f}  accuracy {event['accuracy']:.1%}  {speed}"


def _epoch(event: "Event") -> str:
    """One line per epoch: training loss and accuracy, test or validation accuracy, seconds."""
    part, prefix = ("validation", "validation_") if "validation_top1" in event else ("test", "")
    found: dict[str, Any] = {f"top-{k}": event.get(f"{prefix}top{k}") for k in (1, 3, 5)}
    test = "  ".join(f"{name} {value:.2%}" for name, value in found.items() if value is not None)
    training = f"loss {event['train_loss']:.4f}  accuracy {event['train_top1']:.2%}"
    seconds = event["seconds"] + event.get("evaluation_seconds", 0.0)
    return f"epoch {event['epoch']}: {training}  {part}: {test or 'not evaluated'}  {seconds:.0f} s"
