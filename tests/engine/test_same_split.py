"""The random split that a checkpoint keeps."""

from pathlib import Path

import pytest

import covpool
import trees
from covpool.data import Data
from covpool.data.pipeline import data_settings, data_split
from covpool.data.sets import open_data
from covpool.engine._same_split import check_same_split, split_of_weights, warn_of_seen_validation
from covpool.io import Checkpoint, read_checkpoint
from covpool.recipe import Recipe


def check(checkpoint: Checkpoint, root: Path, force: bool = False, **settings: object) -> None:
    data = Data(root=str(root), **settings)
    check_same_split(checkpoint, data, open_data(data), force=force)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return trees.make_flat(tmp_path / "data", classes=3, per_class=6)


@pytest.fixture
def checkpoint(tmp_path: Path, root: Path) -> Checkpoint:
    data = Data(root=str(root), split_seed=3, test_fraction=0.4)
    splits = open_data(data)
    path = tmp_path / "model.safetensors"
    network = covpool.attach("test_resnet", "avg", 3)
    covpool.save(network, path, class_names=splits.train.classes, data=data_split(data, splits))
    return read_checkpoint(path)


def test_a_checkpoint_opens_its_own_split(checkpoint: Checkpoint, root: Path) -> None:
    assert checkpoint.data is not None
    kept = checkpoint.data
    assert (kept.split_seed, kept.split_fraction, kept.images) == (3, 0.4, {"train": 12, "test": 6})
    check_same_split(checkpoint, data_settings(kept), open_data(data_settings(kept)))
    assert data_settings(kept) == Data(root=str(root), split_seed=3, test_fraction=0.4)


def test_a_checkpoint_holds_out_the_same_validation_images(tmp_path: Path) -> None:
    root = trees.make_folder(tmp_path / "official", per_class=6)
    data = Data(root=str(root), split_seed=5, validation_fraction=0.5)
    kept = data_split(data, open_data(data))
    assert kept.split_fraction is None
    assert data_settings(kept) == data
    opened = open_data(data_settings(kept))
    assert list(opened.train.paths) == list(open_data(data).train.paths)
    assert list(opened.train.paths) != list(open_data(data.changed(split_seed=0)).train.paths)


def test_another_split_is_refused(checkpoint: Checkpoint, root: Path) -> None:
    with pytest.raises(ValueError, match=r"keeps a random split \(split_seed=3.*got split_seed=0, test_fraction=0.4"):
        check(checkpoint, root, test_fraction=0.4)
    trees.write_image(root / "class0" / "new.png")
    with pytest.raises(ValueError, match=r"got other files .*: restore the files"):
        check(checkpoint, root, split_seed=3, test_fraction=0.4)


def test_validation_images_that_the_weights_have_seen_are_said(
    checkpoint: Checkpoint, root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = Data(root=str(root), split_seed=3, test_fraction=0.4)
    warn_of_seen_validation(checkpoint, open_data(data))
    assert not caplog.records
    warn_of_seen_validation(checkpoint, open_data(data.changed(validation_fraction=0.5)))
    (record,) = caplog.records
    assert "may have been trained on the validation images" in record.getMessage()


def test_the_same_validation_images_pass(tmp_path: Path, root: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = Data(root=str(root), split_seed=3, test_fraction=0.4, validation_fraction=0.5)
    splits = open_data(data)
    path = tmp_path / "held_out.safetensors"
    covpool.save(
        covpool.attach("test_resnet", "avg", 3), path, class_names=splits.train.classes, data=data_split(data, splits)
    )
    warn_of_seen_validation(read_checkpoint(path), splits)
    assert not caplog.records


def test_other_data_pass(checkpoint: Checkpoint, root: Path, tmp_path: Path) -> None:
    check(checkpoint, trees.make_folder(tmp_path / "official"))
    (root / "class0").rename(root / "cat")
    check(checkpoint, root)


def test_a_recipe_takes_over_the_split_of_its_weights(checkpoint: Checkpoint, root: Path) -> None:
    recipe = Recipe(data={"root": str(root)}, init={"weights": str(checkpoint.path)})
    assert split_of_weights(recipe) == Data(root=str(root), split_seed=3, test_fraction=0.4)
    assert split_of_weights(recipe.changed(data={"split_seed": 1})).split_seed == 1
    assert split_of_weights(recipe.changed(init={"weights": ""})) == Data(root=str(root))


@pytest.fixture
def textures(tmp_path: Path) -> Path:
    return trees.make_dtd(tmp_path / "textures")


@pytest.fixture
def texture_checkpoint(tmp_path: Path, textures: Path) -> Checkpoint:
    data = Data(name="dtd", root=str(textures), split=2, train_on="train+val")
    splits, path = open_data(data), tmp_path / "textures.safetensors"
    network = covpool.attach("test_resnet", "avg", 3)
    covpool.save(network, path, class_names=splits.train.classes, data=data_split(data, splits))
    return read_checkpoint(path)


def test_another_official_split_is_refused(
    texture_checkpoint: Checkpoint, textures: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check(texture_checkpoint, textures, name="dtd", split=2, train_on="train+val")
    with pytest.raises(ValueError, match=r"was trained on split 2 of dtd.*test images of split 1: use split 2"):
        check(texture_checkpoint, textures, name="dtd", split=1, train_on="train+val")
    with pytest.raises(ValueError, match=r"trained on train\+val of dtd, which includes val: test it on test"):
        check(texture_checkpoint, textures, name="dtd", split=2, test_on="val")
    assert not caplog.records
    check(texture_checkpoint, textures, force=True, name="dtd", split=1)
    assert "The accuracy is not a result" in caplog.text
