"""Stanford Cars: 196 models, 8,144 / 8,041 pictures.

cars_train/, cars_test/, devkit/cars_meta.mat, devkit/cars_train_annos.mat, and cars_test_annos_withlabels.mat beside or
inside devkit/: the file that came later, with the classes of the test pictures.
"""

from pathlib import Path
from typing import Any

from covpool._check import require
from covpool.data.images import Images, Paths
from covpool.data.options import Data
from covpool.data.place import Parts, base

WITH_LABELS = "cars_test_annos_withlabels.mat"


def parts(root: Path, data: Data) -> Parts:
    """train and test."""
    root = base(root, "stanford_cars", "cars_train", "cars_test", "devkit/cars_meta.mat", "devkit/cars_train_annos.mat")
    test = root / "devkit" / WITH_LABELS
    if not test.exists():
        test = base(root, "", WITH_LABELS) / WITH_LABELS
    names = _read(root / "devkit" / "cars_meta.mat", "class_names")
    classes = tuple(str(name) for name in names)
    return {
        "train": _images(root / "devkit" / "cars_train_annos.mat", root / "cars_train", classes),
        "test": _images(test, root / "cars_test", classes),
    }


def _images(listing: Path, folder: Path, classes: tuple[str, ...]) -> Images:
    listed = _read(listing, "annotations")
    paths = Paths(folder / str(name) for name in listed["fname"])
    return Images(paths, [int(number) - 1 for number in listed["class"]], classes)


def _read(path: Path, name: str) -> Any:
    """One variable of a MATLAB file, a numpy array."""
    return require("scipy.io", "train").loadmat(path, squeeze_me=True)[name]
