"""Folders of images: with train and test, and flat ones that are split at random."""

from pathlib import Path

import pytest

import trees
from covpool.data import Data
from covpool.data.sets import RandomSplit, open_data


def names(root: Path, **settings: float) -> tuple[set[str], set[str]]:
    splits = open_data(Data(root=str(root), **settings))
    train, test = ({p.relative_to(root).as_posix() for p in part.paths} for part in (splits.train, splits.test))
    return train, test


def test_a_flat_folder_is_split_class_by_class(tmp_path: Path) -> None:
    root = trees.make_flat(tmp_path, classes=3, per_class=10)
    splits = open_data(Data(root=str(root)))
    assert splits.random == RandomSplit(seed=0, fraction=0.2)
    assert splits.train.classes == splits.test.classes == ("class0", "class1", "class2")
    assert sorted(splits.test.targets) == [0, 0, 1, 1, 2, 2] and len(splits.train) == 24
    train, test = names(root)
    assert not train & test and len(train | test) == 30


def test_the_split_depends_on_names_seed_and_fraction_alone(tmp_path: Path) -> None:
    first, moved = (trees.make_flat(tmp_path / name, per_class=10) for name in ("a", "b/c"))
    assert names(first) == names(first) == names(moved)
    assert names(first, split_seed=1) != names(first)
    assert len(names(first, test_fraction=0.5)[1]) == 15


def test_a_split_is_the_same_on_every_machine(tmp_path: Path) -> None:
    assert names(trees.make_flat(tmp_path, classes=2, per_class=5))[1] == {"class0/4.png", "class1/0.png"}


def test_every_class_of_two_images_has_one_to_test_on(tmp_path: Path) -> None:
    root = trees.make_flat(tmp_path, per_class=2)
    for fraction in (0.01, 0.99):
        train, test = names(root, test_fraction=fraction)
        assert len(train) == len(test) == 3


def test_folders_that_cannot_be_split_are_refused(tmp_path: Path) -> None:
    root = trees.make_flat(tmp_path / "one", per_class=1)
    with pytest.raises(ValueError, match=r"two images or more.*class0 has 1: add images"):
        names(root)
    (tmp_path / "empty" / "cat").mkdir(parents=True)
    with pytest.raises(ValueError, match="must have images; they have none: found cat/"):
        names(tmp_path / "empty")
    trees.write_image(tmp_path / "loose" / "1.png")
    with pytest.raises(ValueError, match=r"one folder of images per class; found 1.png"):
        names(tmp_path / "loose")
    with pytest.raises(ValueError, match="two classes"):
        names(trees.make_flat(tmp_path / "single", classes=1))


def test_a_class_may_be_called_train(tmp_path: Path) -> None:
    root = trees.make_flat(tmp_path, classes=2)
    (root / "class1").rename(root / "train")
    assert open_data(Data(root=str(root))).train.classes == ("class0", "train")
