"""Stanford Cars: 196 models, 8,144 / 8,041 images.

cars_train/, cars_test/, devkit/cars_meta.mat, devkit/cars_train_annos.mat, and cars_test_annos_withlabels.mat (the
classes of the test images, a separate download) next to devkit/ or inside it. Or the first release: cars_annos.mat,
with the split, and car_ims/.
"""

from pathlib import Path

from covpool._errors import CovpoolError, require
from covpool.data._images import Images
from covpool.data._settings import Data
from covpool.data.sets._layout import REPAIR, Subsets, find_root, make_images, reading

ARCHIVE = "stanford_cars"
FIRST_RELEASE = "cars_annos.mat"
TEST_LABELS = "cars_test_annos_withlabels.mat"


def read(root: Path, data: Data) -> Subsets:
    """train and test."""
    for first in (root, root / ARCHIVE):
        if (first / FIRST_RELEASE).is_file():
            return _read_first_release(first)
    needed = ("cars_train", "cars_test", "devkit/cars_meta.mat", "devkit/cars_train_annos.mat")
    root = find_root(root, ARCHIVE, *needed)
    test = root / "devkit" / TEST_LABELS
    if not test.exists():
        test = find_root(root, "", TEST_LABELS) / TEST_LABELS
    classes = _read_classes(root / "devkit" / "cars_meta.mat")
    return {
        "train": _read_images(root / "devkit" / "cars_train_annos.mat", root / "cars_train", classes),
        "test": _read_images(test, root / "cars_test", classes),
    }


def _read_classes(path: Path) -> tuple[str, ...]:
    scipy_io = require("scipy.io", "train")
    with reading(path, "MATLAB's variable class_names"):
        return tuple(str(name) for name in scipy_io.loadmat(path, squeeze_me=True)["class_names"])


def _read_first_release(root: Path) -> Subsets:
    """The subsets of cars_annos.mat, whose field test tells them apart."""
    path = root / FIRST_RELEASE
    classes = _read_classes(path)
    scipy_io = require("scipy.io", "train")
    with reading(path, "MATLAB's variable annotations with the fields relative_im_path, class and test"):
        listed = scipy_io.loadmat(path, squeeze_me=True)["annotations"]
        rows = zip(listed["relative_im_path"], listed["class"], listed["test"], strict=True)
        files = [(str(name), int(number), bool(test)) for name, number, test in rows]
    return {
        subset: _make_images(path, root, [(name, number) for name, number, held in files if held == test], classes)
        for subset, test in (("train", False), ("test", True))
    }


def _read_images(path: Path, folder: Path, classes: tuple[str, ...]) -> Images:
    scipy_io = require("scipy.io", "train")
    with reading(path, "MATLAB's variable annotations with the fields fname and class"):
        listed = scipy_io.loadmat(path, squeeze_me=True)["annotations"]
        files = [(str(name), int(number)) for name, number in zip(listed["fname"], listed["class"], strict=True)]
    return _make_images(path, folder, files, classes)


def _make_images(path: Path, folder: Path, files: list[tuple[str, int]], classes: tuple[str, ...]) -> Images:
    """Images from (file, number of the class from 1) in the list `path`."""
    for name, number in files:
        if not 1 <= number <= len(classes):
            raise CovpoolError(f"{path} must have classes from 1 to {len(classes)}; got {number} for {name}: {REPAIR}")
    return make_images(folder, ((name, number - 1) for name, number in files), classes)
