"""Progress bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


def make_bar(console: Console, *, transient: bool = False) -> Progress:
    """Make the bar of all commands: description, bar, count, the task's field `news`, time spent and time left.

    Args:
        console: Console to draw on.
        transient: Remove the bar at the end.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[news]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=transient,
    )


@contextmanager
def counting_bar(console: Console, description: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a transient bar; yields the callback (what, done, total) that moves it. A total of 0 means unknown."""
    with make_bar(console, transient=True) as bar:
        task = bar.add_task(description, total=None, news="")
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None)
