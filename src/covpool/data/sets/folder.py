"""Your own images: root/train/CLASS/IMAGE and the same under test or val or both, or a flat root/CLASS/IMAGE."""

import os
from pathlib import Path

from covpool._errors import CovpoolError
from covpool.data._images import Images, Paths
from covpool.data._listing import report_skipped, walk_images
from covpool.data._settings import Data
from covpool.data.sets._layout import SUBSETS, Subsets, describe_folder
from covpool.data.sets._random import FRACTION, RandomSplit, split_at_random

SHOWN = 5  # classes named in a message


def read(root: Path, data: Data) -> Subsets:
    """The subsets that exist, or a random split of a flat folder.

    Classes are the sorted folder names; every subset must have the same.
    """
    split = random_split(root, data)
    if split is not None:
        images = list_images(root)
        if not len(images):
            raise CovpoolError(f"the folders in {root} must have images; they have none: {describe_folder(root)}")
        return split_at_random(images, root, split)
    found = _subset_folders(root)
    if "train" not in found or len(found) < 2:
        raise CovpoolError(
            f"{root} must contain the folder train and one of test and val, or one folder of images per class; "
            f"{describe_folder(root)}"
        )
    subsets = {subset: list_images(root / subset) for subset in found}
    for subset in found[1:]:
        _check_same(root / "train", set(subsets["train"].classes), root / subset, set(subsets[subset].classes))
    return subsets


def random_split(root: Path, data: Data) -> RandomSplit | None:
    """How the images of a flat folder are split; None for a folder with train, test or val."""
    if _subset_folders(root):
        return None
    seed, fraction = data.split_seed, data.test_fraction
    return RandomSplit(0 if seed is None else seed, FRACTION if fraction is None else fraction)


def _subset_folders(root: Path) -> list[str]:
    """The names of the subsets that exist. A folder with files in it, such as images of trains, is a class."""
    folders = {name: root / name for name in SUBSETS if (root / name).is_dir()}
    return [name for name, folder in folders.items() if not _holds_only_files(folder)]


def _holds_only_files(folder: Path) -> bool:
    contents = list(folder.iterdir())
    return bool(contents) and all(path.is_file() for path in contents)


def list_images(folder: Path) -> Images:
    """The images of a folder of class folders, in torchvision's order: by class, then by folder, then by name."""
    classes = tuple(sorted(path.name for path in folder.iterdir() if path.is_dir()))
    if not classes:
        raise CovpoolError(f"{folder} must contain one folder of images per class; {describe_folder(folder)}")
    found, skipped = walk_images(folder)
    start = len(os.path.join(folder, ""))
    listed = sorted((*path[start:].partition(os.sep)[:2], *os.path.split(path)) for path in found)
    inside = [entry for entry in listed if entry[1]]
    report_skipped(folder, skipped, outside=[name for _, separator, _, name in listed if not separator])
    target = {name: number for number, name in enumerate(classes)}
    paths = Paths(os.path.join(place, name) for _, _, place, name in inside)
    return Images(paths, [target[entry[0]] for entry in inside], classes)


def _check_same(train: Path, classes: set[str], other: Path, others: set[str]) -> None:
    for folder, missing in ((other, classes - others), (train, others - classes)):
        if missing:
            names = ", ".join(sorted(missing)[:SHOWN]) + ", ..." * (len(missing) > SHOWN)
            raise CovpoolError(
                f"{train} and {other} must have the same classes; {folder} lacks {names}: add the folder with images, "
                "or remove the class from the other set too"
            )
