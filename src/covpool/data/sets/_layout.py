"""The folder and the lists of a data set, with messages that say what is missing or damaged."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from covpool._errors import CovpoolError
from covpool.data._images import Images, Paths

SUBSETS = ("train", "val", "test")
Subsets = dict[str, Images]  # by these names; every data set has "train" and at least one of the others

ENTRIES = 8  # names of a folder's contents in a message
SHOWN = 100  # characters of a damaged line, or of another library's message, in a message
REPAIR = "repair it, or unpack it again"

Entry = TypeVar("Entry")
Key = TypeVar("Key")


def find_root(root: Path, archive: str, *expected: str) -> Path:
    """The folder that contains a data set: `root` itself, or the folder `archive` inside it.

    Args:
        root: Folder given by the user.
        archive: Name of the top folder in the archive of the data set.
        expected: Files and folders that the data set must contain.
    """
    found = root / archive if (root / archive).is_dir() else root
    missing = [name for name in expected if not (found / name).exists()]
    if missing:
        raise CovpoolError(
            f"{found} must contain {', '.join(expected)}; {', '.join(missing)} is missing: {describe_folder(found)}"
        )
    return found


def describe_folder(folder: Path) -> str:
    """The contents of a folder, for a message.

    >>> describe_folder(Path("/no/such/folder"))
    'the folder does not exist'
    """
    if not folder.is_dir():
        return "the folder does not exist"
    names = sorted(path.name + "/" * path.is_dir() for path in folder.iterdir())
    return f"found {', '.join(names[:ENTRIES])}{', ...' * (len(names) > ENTRIES)}" if names else "the folder is empty"


@contextmanager
def reading(path: Path, expected: str) -> Iterator[None]:
    """Turn an error raised while a file is read into a message that says what the file must contain."""
    if path.exists() and not path.is_file():  # opening a named pipe would wait for a writer
        raise CovpoolError(f"{path} must be a file with {expected}; it is a folder or a device: {REPAIR}")
    try:
        yield
    except Exception as error:  # every library has its own error for a damaged file
        if isinstance(error, OSError) and error.filename:  # missing or forbidden, not damaged
            raise
        sentence = re.split(r"\n|\. ", str(error))[0]
        reason = f"{type(error).__name__}: {sentence[:SHOWN]}"
        raise CovpoolError(f"{path} must contain {expected}; reading it failed with {reason}: {REPAIR}") from error


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file, stripped, without empty ones."""
    return (line for _, line in _numbered_lines(path))


def parse_lines(path: Path, parse: Callable[[str], Entry], expected: str) -> Iterator[Entry]:
    """The parsed lines of a file.

    Args:
        path: File to read.
        parse: Parses one line; raises ValueError or LookupError if the line is invalid.
        expected: Description of a valid line, for the message.
    """
    for number, line in _numbered_lines(path):
        try:
            entry = parse(line)
        except (ValueError, LookupError) as error:
            raise CovpoolError(f"{path}, line {number}: expected {expected}; got {line[:SHOWN]!r}: {REPAIR}") from error
        yield entry


def first_word(line: str) -> tuple[str, str]:
    """The first word of a line, and the rest.

    >>> first_word("0034309 Falcon 900")
    ('0034309', 'Falcon 900')
    """
    first, rest = line.split(maxsplit=1)
    return first, rest


def number_classes(names: Iterable[Key]) -> dict[Key, int]:
    """The target of each class: its position among all of them."""
    return {name: target for target, name in enumerate(names)}


def make_images(folder: Path, listed: Iterable[tuple[str, int]], classes: tuple[str, ...]) -> Images:
    """Images from (file relative to `folder`, target)."""
    files = list(listed)
    return Images(Paths(folder / file for file, _ in files), [target for _, target in files], classes)


def read_class_lists(folder: Path, lists: Mapping[str, Path]) -> Subsets:
    """Subsets from lists with lines CLASS/IMAGE; the classes are sorted by name.

    Args:
        folder: Folder that contains CLASS/IMAGE.
        lists: List of each subset.
    """
    files = {subset: list(read_lines(path)) for subset, path in lists.items()}
    targets = number_classes(sorted({file.split("/")[0] for listed in files.values() for file in listed}))
    return {
        subset: make_images(folder, ((file, targets[file.split("/")[0]]) for file in listed), tuple(targets))
        for subset, listed in files.items()
    }


def _numbered_lines(path: Path) -> Iterator[tuple[int, str]]:
    with reading(path, "text in UTF-8"), path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if stripped := line.strip():
                yield number, stripped
