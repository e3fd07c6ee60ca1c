"""What commands print, and the files they write."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column, Table
from rich.text import Text

from covpool._errors import CovpoolError, check_utf8, printable, require
from covpool.cli._wrap import wrapped

if TYPE_CHECKING:
    from covpool.data.sets import Splits

LONGEST = timedelta.max.total_seconds() // 2
UNKNOWN = "-"  # what a table shows for a missing value

Cell = str | Text


def say(console: Console, text: str) -> None:
    """Print text as it is: no markup, no colors, no terminal escapes. A terminal gets line breaks between words."""
    text = wrapped(printable(text), console.file, console.width)
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def table(
    headings: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    left: int = 1,
    title: str | None = None,
    caption: str | None = None,
) -> Table:
    """Build a table. Headings break between words, and text, but no number, wraps in a narrow terminal.

    Markup and terminal escapes are shown literally.

    Args:
        headings: Headings of the columns.
        rows: Cells of each row.
        left: Number of columns aligned to the left; the others hold numbers and are aligned to the right.
        title: Line above the table.
        caption: Line below the table.
    """
    made = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    cells = [[Text(printable(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    for i, heading in enumerate(headings):
        width = max(len(part) for part in (*heading.split(), "", *(row[i].plain for row in cells)))
        style = {"justify": "left"} if i < left else {"justify": "right", "no_wrap": True}
        made.add_column(escape(fill(heading, max(width, 1), break_on_hyphens=False)), overflow="fold", **style)
    for row in cells:
        made.add_row(*row)
    return made


def facts(rows: Iterable[tuple[str, Cell]], *, title: str | None = None) -> Table:
    """Build a table of names and values, without headings."""
    made = table(("", ""), rows, left=2, title=title)
    made.show_header = False
    return made


def number(value: float | None, pattern: str = "") -> str:
    """Format a number; by default with three digits, and all digits before the point.

    >>> number(0.56789), number(1012.3), number(0.5, "{:.0%}"), number(None)
    ('0.568', '1012', '50%', '-')
    """
    if value is None:
        return UNKNOWN
    return (pattern or ("{:.3g}" if abs(value) < 100 else "{:.0f}")).format(value)


def percent_interval(bounds: tuple[float, float], pattern: str = "{:.1f}") -> str:
    """Format both bounds of an interval in percent.

    >>> percent_interval((0.5, 0.75)), percent_interval((-0.01, 0.02), "{:+.1f}")
    ('50.0 to 75.0', '-1.0 to +2.0')
    """
    return " to ".join(pattern.format(100 * bound) for bound in bounds)


def output_path(source: Path, suffix: str, asked: Path | None) -> Path:
    """Return the file asked for, or else the source's name with another suffix, which must not exist.

    >>> str(output_path(Path("model_best.pth.tar"), ".safetensors", None))
    'model_best.safetensors'
    """
    path = asked or source.with_name(source.name.removesuffix(".tar")).with_suffix(suffix)
    check_utf8("the path of the file to write", str(path))
    if path.resolve() == source.resolve():
        raise CovpoolError(f"{path} would overwrite its own input: name another file with --out")
    if asked is None and path.exists():
        raise CovpoolError(f"{path} exists already: name a new file with --out, or the same file to replace it")
    return path


def make_folder(path: Path) -> Path:
    """Create the folder that a file is about to be written to. Returns the path of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write_run_report(run: Path, console: Console, splits: "Splits | None" = None) -> None:
    """Write the report of a run and say where it is.

    Args:
        run: Folder of the run.
        console: Where to print.
        splits: The data, if it is not where the recipe of the run says.
    """
    require("jinja2", "train")
    from covpool.report import write_report

    with console.status("evaluating the test images for the report"):
        path = write_report(run, splits=splits)
    say(console, f"report: {path}")


def next_command(checkpoint: Path) -> str:
    """Return the line that says how to classify images with a new checkpoint.

    >>> next_command(Path("runs", "fit-birds", "best.safetensors"))
    'next: covpool predict runs/fit-birds/best.safetensors IMAGE'
    """
    return f"next: covpool predict {checkpoint} IMAGE"


class TimeLeft(ProgressColumn):
    """The time left; the time taken while that is unknown and at the end."""

    def render(self, task: Task) -> Text:
        left = None if task.finished else task.time_remaining
        seconds, label = (task.elapsed or 0, "taken") if left is None else (left, "left")
        return Text(f"{timedelta(seconds=int(min(seconds, LONGEST)))} {label}")


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
