"""Places365-Standard: lists of the development kit, pictures at 256 pixels or full size.

root/categories_places365.txt, places365_train_standard.txt, places365_val.txt; pictures in data_256_standard or
data_large_standard (as torchvision names them; data_256 and data_large as the archives do), val_256 or val_large.
"""

from pathlib import Path

from covpool._errors import CovpoolError
from covpool.data._images import Images, Paths
from covpool.data._settings import Data
from covpool.data.sets._layout import Parts, base, inside
from covpool.data.sets._lists import entries

TRAIN_FOLDERS = ("data_256_standard", "data_256", "data_large_standard", "data_large")
VAL_FOLDERS = ("val_256", "val_large")
LISTS = ("categories_places365.txt", "places365_train_standard.txt", "places365_val.txt")


def parts(root: Path, data: Data) -> Parts:
    """train and val; the labels of the test part were never given out."""
    root = base(root, "places365_standard", *LISTS)
    categories = dict(entries(root / LISTS[0], _category, "the name and the number of a category"))
    numbers = {number: position for position, number in enumerate(sorted(categories))}
    classes = tuple(categories[number].split("/", 2)[-1] for number in numbers)  # "/a/airfield": sorted by first letter
    return {
        "train": _images(root / LISTS[1], _first(root, TRAIN_FOLDERS), classes, numbers),
        "val": _images(root / LISTS[2], _first(root, VAL_FOLDERS), classes, numbers),
    }


def _first(root: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (root / name).is_dir():
            return root / name
    raise CovpoolError(f"{root} must hold one of the folders {', '.join(names)}; {inside(root)}")


def _category(row: str) -> tuple[int, str]:
    name, number = row.split()
    return int(number), name


def _images(listing: Path, folder: Path, classes: tuple[str, ...], numbers: dict[int, int]) -> Images:
    def entry(row: str) -> tuple[str, int]:
        name, number = row.rsplit(maxsplit=1)
        return name.lstrip("/"), numbers[int(number)]

    listed = list(entries(listing, entry, f"a picture and the number of its category in {LISTS[0]}"))
    return Images(Paths(folder / name for name, _ in listed), [target for _, target in listed], classes)
