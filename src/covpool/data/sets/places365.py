"""Places365-Standard: the lists of the development kit, and images at 256 pixels or full size.

root/categories_places365.txt, places365_train_standard.txt and places365_val.txt; images in data_256_standard or
data_large_standard (torchvision's names), or data_256 or data_large (the archives' names), and val_256 or val_large.
Or the archive "easyformat": places365_standard/train/CLASS/IMAGE and places365_standard/val/CLASS/IMAGE.
"""

from pathlib import Path

from covpool._errors import CovpoolError
from covpool.data._settings import Data
from covpool.data.sets import folder
from covpool.data.sets._layout import Subsets, describe_folder, find_root, make_images, number_classes, parse_lines

ARCHIVE = "places365_standard"
CATEGORIES = "categories_places365.txt"
LISTS = {"train": "places365_train_standard.txt", "val": "places365_val.txt"}
FOLDERS = {
    "train": ("data_256_standard", "data_256", "data_large_standard", "data_large"),
    "val": ("val_256", "val_large"),
}


def read(root: Path, data: Data) -> Subsets:
    """train and val; the classes of the test images are not public."""
    inside = root / ARCHIVE if (root / ARCHIVE).is_dir() else root
    if all((inside / subset).is_dir() for subset in LISTS):
        return folder.read(inside, data)
    root = find_root(root, ARCHIVE, CATEGORIES, *LISTS.values())
    categories = dict(parse_lines(root / CATEGORIES, _parse_category, "the name and the number of a category"))
    position = number_classes(sorted(categories))
    classes = tuple(categories[number].split("/", 2)[-1] for number in position)  # "/a/airfield" -> "airfield"

    def parse(line: str) -> tuple[str, int]:
        name, number = line.rsplit(maxsplit=1)
        return name.lstrip("/"), position[int(number)]

    expected = f"an image and the number of its category in {CATEGORIES}"
    return {
        subset: make_images(_first_folder(root, FOLDERS[subset]), parse_lines(root / name, parse, expected), classes)
        for subset, name in LISTS.items()
    }


def _first_folder(root: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (root / name).is_dir():
            return root / name
    raise CovpoolError(f"{root} must contain one of the folders {', '.join(names)}; {describe_folder(root)}")


def _parse_category(line: str) -> tuple[int, str]:
    name, number = line.split()
    return int(number), name
