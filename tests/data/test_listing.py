"""Image files in folders of any layout."""

from pathlib import Path

import pytest

from covpool import CovpoolError
from covpool.data import find_images, label_images
from trees import make_folder, write_image


def test_folders_inside_train_and_test_are_classes(tmp_path: Path) -> None:
    images = label_images(make_folder(tmp_path, classes=2, per_class=3))
    assert images.classes == ("class0", "class1") and sorted(images.targets) == [0] * 6 + [1] * 6


def test_outermost_folders_are_classes(tmp_path: Path) -> None:
    for name in ("train/1.png", "bus/2.JPG", "bus/red/3.png", "4.png"):
        write_image(tmp_path / name)
    images = label_images(tmp_path)
    found = {path.name: target for path, target in zip(images.paths, images.targets, strict=True)}
    assert images.classes == ("bus", "train") and found == {"1.png": 1, "2.JPG": 0, "3.png": 0, "4.png": -1}


def test_images_outside_of_folders_have_no_class(tmp_path: Path) -> None:
    write_image(tmp_path / "1.png")
    (tmp_path / "notes.txt").write_text("no image")
    assert label_images(tmp_path).targets == [-1] and label_images(tmp_path).classes == ()


def test_folders_without_images_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CovpoolError, match="there are no images in the folder"):
        find_images(tmp_path)
    with pytest.raises(CovpoolError, match="there is no folder"):
        find_images(tmp_path / "none")
