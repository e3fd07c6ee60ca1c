"""Stanford Cars: 196 models, 8,144 / 8,041 pictures.

cars_train/, cars_test/, devkit/cars_meta.mat, devkit/cars_train_annos.mat, and cars_test_annos_withlabels.mat beside or
inside devkit/: the file that came later, with the classes of the test pictures.
"""

from pathlib import Path

from covpool._check import require
from covpool._errors import CovpoolError
from covpool.data._images import Images, Paths
from covpool.data._settings import Data
from covpool.data.sets._layout import Parts, base
from covpool.data.sets._lists import AGAIN, reading

WITH_LABELS = "cars_test_annos_withlabels.mat"


def parts(root: Path, data: Data) -> Parts:
    """train and test."""
    root = base(root, "stanford_cars", "cars_train", "cars_test", "devkit/cars_meta.mat", "devkit/cars_train_annos.mat")
    test = root / "devkit" / WITH_LABELS
    if not test.exists():
        test = base(root, "", WITH_LABELS) / WITH_LABELS
    classes = _classes(root / "devkit" / "cars_meta.mat")
    return {
        "train": _images(root / "devkit" / "cars_train_annos.mat", root / "cars_train", classes),
        "test": _images(test, root / "cars_test", classes),
    }


def _classes(path: Path) -> tuple[str, ...]:
    scipy_io = require("scipy.io", "train")
    with reading(path, "MATLAB's variable class_names"):
        return tuple(str(name) for name in scipy_io.loadmat(path, squeeze_me=True)["class_names"])


def _images(path: Path, folder: Path, classes: tuple[str, ...]) -> Images:
    scipy_io = require("scipy.io", "train")
    with reading(path, "MATLAB's variable annotations with the fields fname and class"):
        listed = scipy_io.loadmat(path, squeeze_me=True)["annotations"]
        names, numbers = [str(name) for name in listed["fname"]], [int(number) for number in listed["class"]]
    for name, number in zip(names, numbers, strict=True):
        if not 1 <= number <= len(classes):
            raise CovpoolError(f"{path} must have classes from 1 to {len(classes)}; got {number} for {name}: {AGAIN}")
    return Images(Paths(folder / name for name in names), [number - 1 for number in numbers], classes)
