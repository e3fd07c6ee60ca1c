"""What a training tells, as a progress bar."""

from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from covpool.engine.training import Event


class ProgressBar:
    """A consumer of the events of `covpool.engine.training._loop.train`: a bar for the steps, a line for every epoch.

    Args:
        console: where it is drawn.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[news]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._steps = self._bar.add_task("training", total=None, news="")
        self._caching = self._bar.add_task("decoding images", total=None, news="", visible=False)

    def __enter__(self) -> "ProgressBar":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar.tasks[self._steps].total is None:  # an error before the first step: an empty bar says nothing
            self._bar.update(self._steps, visible=False)
        self._bar.stop()

    def __call__(self, event: Event) -> None:
        name = event["event"]
        if name == "stage":
            self._bar.update(self._steps, total=event["total_steps"], completed=event["step"])
            for note in event["notes"]:
                self._say(note)
        elif name == "tick":
            self._bar.update(self._steps, completed=event["step"], description=f"epoch {event['epoch']}")
        elif name == "step":
            self._bar.update(self._steps, news=_step(event))
        elif name == "epoch":
            self._say(_epoch(event))
        elif name == "broken":
            self._say(f"cannot be read and is left out: {event['path']}")
        elif name == "stopping":
            self._say("stopping as soon as everything is saved; Ctrl-C once more stops at once")
        elif name == "caching":
            done, count = event["done"], event["count"]
            self._bar.update(self._caching, completed=done, total=count, visible=done < count)

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _step(event: Event) -> str:
    speed = f"{event['images_per_s']:.0f} images/s"
    if event["compute_images_per_s"] > 1.1 * event["images_per_s"]:
        speed += f", waits {1 - event['images_per_s'] / event['compute_images_per_s']:.0%}"
    return f"loss {event['loss']:.3f}  accuracy {event['accuracy']:.1%}  {speed}"


def _epoch(event: Event) -> str:
    """One line: what was learnt, what the test says, how long it took."""
    found: dict[str, Any] = {f"top-{k}": event.get(f"top{k}") for k in (1, 3, 5)}
    test = "  ".join(f"{name} {value:.2%}" for name, value in found.items() if value is not None)
    learnt = f"loss {event['train_loss']:.4f}  accuracy {event['train_top1']:.2%}"
    seconds = event["seconds"] + event.get("evaluation_seconds", 0.0)
    return f"epoch {event['epoch']}: {learnt}  test: {test or 'not judged'}  {seconds:.0f} s"
