"""CUB-200-2011: 200 birds, 5,994 / 5,794 pictures in the official split."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from covpool._errors import CovpoolError
from covpool.data._images import Images, Paths
from covpool.data._settings import Data
from covpool.data.sets._layout import Parts, base
from covpool.data.sets._lists import AGAIN, entries, pair

LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")

Value = TypeVar("Value")


def parts(root: Path, data: Data) -> Parts:
    """train and test, by train_test_split.txt."""
    root = base(root, "CUB_200_2011", *LISTS, "images")
    pictures, labels, split, birds = (root / name for name in LISTS)
    names = _numbered(birds, str, "a number and the name of a class")
    positions = {number: position for position, number in enumerate(sorted(names))}
    classes = tuple(names[number].partition(".")[2] or names[number] for number in positions)
    files = _numbered(pictures, str, "a number and the file of a picture")
    targets = _numbered(
        labels, lambda label: positions[int(label)], "the number of a picture and that of its class in classes.txt"
    )
    flags = _numbered(split, ("0", "1").index, "the number of a picture, and 1 (training) or 0 (test)")
    for listing, numbers in ((labels, targets.keys()), (split, flags.keys())):
        _check_complete(listing, files, files.keys() - numbers)

    def part(flag: int) -> Images:
        chosen = [number for number in files if flags[number] == flag]
        paths = Paths(root / "images" / files[number] for number in chosen)
        return Images(paths, [targets[number] for number in chosen], classes)

    return {"train": part(1), "test": part(0)}


def _numbered(path: Path, read: Callable[[str], Value], expected: str) -> dict[int, Value]:
    """A list whose lines begin with a number."""

    def entry(row: str) -> tuple[int, Value]:
        number, rest = pair(row)
        return int(number), read(rest)

    return dict(entries(path, entry, expected))


def _check_complete(listing: Path, files: dict[int, str], missing: set[int]) -> None:
    if missing:
        first = min(missing)
        raise CovpoolError(
            f"{listing} must have a line for each of the {len(files)} pictures of images.txt; it lacks {len(missing)}, "
            f"the first of them {first} ({files[first]}): {AGAIN}"
        )
