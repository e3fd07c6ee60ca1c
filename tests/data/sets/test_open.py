"""Choosing the training set and the test set, and what is rejected before training starts."""

from pathlib import Path
from typing import Any

import pytest

import trees
from covpool.data._settings import Data
from covpool.data.sets._open import open_data


def test_the_only_held_out_set_serves_as_test_and_val(tmp_path: Path) -> None:
    root = str(trees.make_folder(tmp_path, subsets=("train", "val")))
    on_test, on_val = open_data(Data(root=root)).test, open_data(Data(root=root, test_on="val")).test
    assert list(on_test.paths) == list(on_val.paths) and on_test.targets == on_val.targets
    trees.make_folder(tmp_path, subsets=("test",), per_class=1)
    assert len(open_data(Data(root=root)).test) == 3 and len(open_data(Data(root=root, test_on="val")).test) == 12
    assert len(open_data(Data(root=root, train_on="train+val")).train) == 24


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "cubs"}, r"`data.name`.*did you mean 'cub'"),
        ({"root": ""}, "no images are named: add --data FOLDER"),
        ({"root": "/no/such/place"}, "^there is no folder /no/such/place$"),
        ({"name": "cub"}, r"images.txt.*is missing: found test/, train/"),
        ({"name": "aircraft"}, r"must contain data.*found test/, train/"),
        ({"split": 3}, r"must be 1 for a data set with one official split; got 3 for 'folder': leave it out, or name"),
        ({"train_on": "train+val"}, r"needs a test set besides train and val; folder at .* has train, test"),
    ],
)
def test_a_wrong_request_names_what_was_expected_and_found(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    trees.make_folder(tmp_path)
    with pytest.raises(ValueError, match=message):
        open_data(Data(**{"root": str(tmp_path)} | options))


def test_training_on_val_requires_another_test_set(tmp_path: Path) -> None:
    root = str(trees.make_dtd(tmp_path))
    with pytest.raises(ValueError, match="tested on val"):
        open_data(Data(name="dtd", root=root, train_on="train+val", test_on="val"))


def test_a_missing_or_empty_class_is_named(tmp_path: Path) -> None:
    trees.make_folder(tmp_path, subsets=("train",), classes=3)
    trees.make_folder(tmp_path, subsets=("test",), classes=2)
    with pytest.raises(ValueError, match=r"same classes; .*test lacks class2"):
        open_data(Data(root=str(tmp_path)))
    (tmp_path / "test" / "class2").mkdir()
    with pytest.raises(ValueError, match=r"the test set of .* has none of class2"):
        open_data(Data(root=str(tmp_path)))


def test_a_listed_class_without_images_is_named(tmp_path: Path) -> None:
    trees.make_cub(tmp_path)
    with (tmp_path / "CUB_200_2011" / "classes.txt").open("a") as classes:
        classes.write("4 004.Dodo\n")
    with pytest.raises(ValueError, match="has none of Dodo"):
        open_data(Data(name="cub", root=str(tmp_path)))


def test_a_folder_without_classes_or_images_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "test").mkdir()
    with pytest.raises(ValueError, match="one folder of images per class; the folder is empty"):
        open_data(Data(root=str(tmp_path)))
    for part in ("train", "test"):
        (tmp_path / part / "cat").mkdir()
    with pytest.raises(ValueError, match="must have images; it has none"):
        open_data(Data(root=str(tmp_path)))
    (tmp_path / "train").rename(tmp_path / "training")
    with pytest.raises(ValueError, match=r"must contain the folder train .* found test/, training/"):
        open_data(Data(root=str(tmp_path)))


def test_a_single_class_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"at least two classes; .* has only class0"):
        open_data(Data(root=str(trees.make_folder(tmp_path, classes=1))))
