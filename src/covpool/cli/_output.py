"""What commands print, and the files they write."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from covpool._errors import CovpoolError, printable

UNKNOWN = "-"  # what a table shows for a missing value

Cell = str | Text


def say(console: Console, text: str) -> None:
    """Print text as it is: no markup, no colors, no line breaks inside a path, and no terminal escapes."""
    console.print(printable(text), markup=False, highlight=False, soft_wrap=True)


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
    if path.resolve() == source.resolve():
        raise CovpoolError(f"{path} would overwrite its own input: name another file with --out")
    if asked is None and path.exists():
        raise CovpoolError(f"{path} exists already: name a new file with --out, or the same file to replace it")
    return path


def make_folder(path: Path) -> Path:
    """Create the folder that a file is about to be written to. Returns the path of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
