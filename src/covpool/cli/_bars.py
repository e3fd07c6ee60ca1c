"""Progress bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text


class TimeLeft(ProgressColumn):
    """The time left; the time taken while that is unknown and at the end."""

    def render(self, task: Task) -> Text:
        left = None if task.finished else task.time_remaining
        seconds, label = (task.elapsed or 0, "taken") if left is None else (left, "left")
        return Text(f"{timedelta(seconds=int(seconds))} {label}")


def make_bar(console: Console, *, transient: bool = False) -> Progress:
    """Make the bar of all commands: description, bar, count, the task's field `news`, and time left.

    The bar itself takes the width that the others leave.

    Args:
        console: Console to draw on.
        transient: Remove the bar at the end.
    """
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None, table_column=Column(ratio=1)),
        MofNCompleteColumn(),
        TextColumn("{task.fields[news]}"),
        TimeLeft(),
        console=console,
        transient=transient,
        expand=True,
    )


@contextmanager
def counting_bar(console: Console, description: str) -> Iterator[Callable[[str, int, int], None]]:
    """Show a transient bar; yields the callback (what, done, total) that moves it. A total of 0 means unknown."""
    with make_bar(console, transient=True) as bar:
        task = bar.add_task(description, total=None, news="")
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total or None)
