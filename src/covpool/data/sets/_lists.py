"""Reading the lists of a data set: what they say, or a message with the file, the line and what was expected there."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from covpool._errors import CovpoolError

SHOWN = 100  # characters of a damaged line, or of a library's complaint, in a message
AGAIN = "mend it, or unpack it again"

Entry = TypeVar("Entry")


@contextmanager
def reading(path: Path, expected: str) -> Iterator[None]:
    """Whatever goes wrong inside becomes a message that `path` must hold what is expected."""
    try:
        yield
    except Exception as error:  # of a damaged file every library complains in its own way
        if isinstance(error, OSError) and error.filename:  # not damaged, but missing or forbidden
            raise
        sentence = re.split(r"\n|\. ", str(error))[0]
        complaint = f"{type(error).__name__}: {sentence[:SHOWN]}"
        raise CovpoolError(f"{path} must hold {expected}; reading it gave {complaint}: {AGAIN}") from error


def rows(path: Path) -> Iterator[str]:
    """The lines of a list, without blanks around them and without empty ones."""
    return (row for _, row in _numbered_rows(path))


def entries(path: Path, read: Callable[[str], Entry], expected: str) -> Iterator[Entry]:
    """What `read` makes of the lines of a list.

    Args:
        path: the list.
        read: raises ValueError or LookupError where a line is not as it should be.
        expected: how it should be, for the message.
    """
    for number, row in _numbered_rows(path):
        try:
            entry = read(row)
        except (ValueError, LookupError) as error:
            raise CovpoolError(f"{path}, line {number}: expected {expected}; got {row[:SHOWN]!r}: {AGAIN}") from error
        yield entry


def pair(row: str) -> tuple[str, str]:
    """The first word of a line, and the rest.

    >>> pair("0034309 Falcon 900")
    ('0034309', 'Falcon 900')
    """
    first, rest = row.split(maxsplit=1)
    return first, rest


def _numbered_rows(path: Path) -> Iterator[tuple[int, str]]:
    with reading(path, "text in UTF-8"), path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if row := line.strip():
                yield number, row
