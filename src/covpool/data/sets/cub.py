"""CUB-200-2011: 200 birds, 5,994 / 5,794 images in the official split."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from covpool._errors import CovpoolError
from covpool.data._settings import Data
from covpool.data.sets._layout import REPAIR, Subsets, find_root, first_word, make_images, number_classes, parse_lines

LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")

Value = TypeVar("Value")


def read(root: Path, data: Data) -> Subsets:
    """train and test, as in train_test_split.txt."""
    root = find_root(root, "CUB_200_2011", *LISTS, "images")
    images, labels, split, birds = (root / name for name in LISTS)
    names = _read_numbered(birds, str, "a number and the name of a class")
    position = number_classes(sorted(names))
    classes = tuple(names[number].partition(".")[2] or names[number] for number in position)
    files = _read_numbered(images, str, "a number and the file of an image")
    targets = _read_numbered(
        labels, lambda label: position[int(label)], "the number of an image and that of its class in classes.txt"
    )
    in_training = _read_numbered(split, ("0", "1").index, "the number of an image, and 1 (training) or 0 (test)")
    for path, numbers in ((labels, targets.keys()), (split, in_training.keys())):
        _check_complete(path, files, files.keys() - numbers)
    return {
        subset: make_images(
            root / "images",
            ((file, targets[number]) for number, file in files.items() if in_training[number] == flag),
            classes,
        )
        for subset, flag in (("train", 1), ("test", 0))
    }


def _read_numbered(path: Path, parse: Callable[[str], Value], expected: str) -> dict[int, Value]:
    """A list whose lines start with a number."""

    def parse_line(line: str) -> tuple[int, Value]:
        number, rest = first_word(line)
        return int(number), parse(rest)

    return dict(parse_lines(path, parse_line, expected))


def _check_complete(path: Path, files: dict[int, str], missing: set[int]) -> None:
    if missing:
        first = min(missing)
        raise CovpoolError(
            f"{path} must have a line for each of the {len(files)} images of images.txt; it lacks {len(missing)}, "
            f"the first of them {first} ({files[first]}): {REPAIR}"
        )
