"""Fitting: from a folder to a checkpoint."""

from pathlib import Path
from typing import Any

import pytest
import torch

import covpool
import trees
from covpool._files import read_tensors
from covpool.data.pipeline import EvalBatches, augment_of, data_settings
from covpool.data.sets import open_data
from covpool.engine import compute_scores
from covpool.engine.evaluation import SCORES_FILE
from covpool.engine.training._build import build_network
from covpool.io import read_checkpoint
from covpool.recipe import Recipe
from covpool.studies.fit import FitResult
from covpool.studies.fit import _compare as compare

SMALL: dict[str, Any] = {
    "backbone": "test_resnet",
    "pretrained": False,
    "width": 8,
    "size": 64,
    "device": "cpu",
    "data": {"workers": 0},
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trees.make_flat(tmp_path_factory.mktemp("data") / "stripes", classes=4, per_class=8)


@pytest.fixture(scope="module")
def result(root: Path, tmp_path_factory: pytest.TempPathFactory) -> FitResult:
    return covpool.fit(root, out=str(tmp_path_factory.mktemp("out") / "fit"), seed=1, test_fraction=0.25, **SMALL)


def test_candidates_are_compared_and_one_is_chosen(result: FitResult) -> None:
    candidates = [(trial.candidate.pool, trial.candidate.level) for trial in result.table]
    pools = ("avg", "isqrt", "gaussian")
    assert candidates == [(pool, level) for level in ("", "layer3.0") for pool in pools]
    assert result.chosen in result.table and "comparing 6 candidates" in result.notes[0]
    assert result.accuracy > 0.6 and result.interval[0] < result.accuracy <= result.interval[1]
    assert len(result.evaluation.by_class) == 4


def test_a_device_that_is_not_there_is_refused(root: Path, tmp_path: Path) -> None:
    for device in ("meta", "gpu", *(["cuda"] * (not torch.cuda.is_available()))):
        with pytest.raises(ValueError, match=rf"`device` must be cpu.*; got '{device}'"):
            covpool.fit(root, out=str(tmp_path / "fit"), **{**SMALL, "device": device})


def test_a_wrong_option_of_a_pool_is_found_before_the_features(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare.TappedBackbone, "compute", None)
    with pytest.raises(ValueError, match=r"the pool isqrt cannot be built: .*iteration"):
        covpool.fit(root, out=str(tmp_path / "fit"), **{**SMALL, "pool": "isqrt:iteration=3"})


def test_the_checkpoint_describes_everything(result: FitResult, root: Path) -> None:
    about = read_checkpoint(result.checkpoint)
    assert about.class_names == ("class0", "class1", "class2", "class3")
    assert about.preprocessing is not None and about.preprocessing.size == 64
    assert about.data is not None and about.training is not None
    assert (about.data.split_seed, about.data.split_fraction, about.data.images) == (1, 0.25, {"train": 24, "test": 8})
    assert about.architecture is not None and getattr(about.architecture, "keep_last_stride", None) is True
    notes: dict[str, Any] = about.training.notes
    assert len(notes["table"]) == 6 and notes["fit"]["backbone"] == "test_resnet"
    assert about.training.metrics["top1"] == result.accuracy


def test_the_loaded_network_gives_the_scores_of_the_fit(root: Path, tmp_path: Path) -> None:
    for pool, level in (("gaussian", "last"), ("isqrt:iterations=3", "layer3.0"), ("avg", "last")):
        out = tmp_path / f"{pool.partition(':')[0]}-{level}"
        result = covpool.fit(root, out=str(out), pool=pool, level=level, **SMALL)
        about = read_checkpoint(result.checkpoint)
        assert about.data is not None and about.preprocessing is not None
        data = data_settings(about.data).changed(workers=0)
        batches = EvalBatches(open_data(data).test, augment_of(about.preprocessing), data, batch_size=64)
        logits, targets = compute_scores(covpool.load(result.checkpoint), batches)
        saved = read_tensors(result.checkpoint.with_name(SCORES_FILE))
        assert torch.equal(logits, saved["logits"]) and torch.equal(targets, saved["targets"])
        assert float((logits.argmax(1) == targets).double().mean()) == result.accuracy
        assert len(result.table) == 1 and not result.notes


def test_the_same_settings_give_the_same_network(root: Path, tmp_path: Path) -> None:
    first, second = (covpool.fit(root, out=str(tmp_path / n), pool="isqrt", **SMALL).network for n in "ab")
    again = second.state_dict()
    assert all(torch.equal(tensor, again[name]) for name, tensor in first.state_dict().items())


def test_every_pool_gets_the_channels_that_a_probe_gives_it(root: Path, tmp_path: Path) -> None:
    pools = ["avg", "kernel:size=64", "netvlad:clusters=4", "avg:reduce_to=4"]
    result = covpool.fit(root, out=str(tmp_path / "out"), pool=pools, folds=2, **SMALL)
    channels = result.network.features.channels[0]
    assert channels > SMALL["width"]
    assert [trial.length for trial in result.table] == [channels, 1 + channels + 3 * 64, 4 * SMALL["width"], 4]


def test_many_images_on_a_cpu_are_compared_on_some(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "CPU_IMAGES", 12)
    result = covpool.fit(root, out=str(tmp_path / "out"), pool=["avg", "gem"], **SMALL)
    assert "on 12 of 24 training images" in result.notes[0]
    assert result.chosen not in result.table  # fitted again, to all images
    assert result.chosen.candidate in [trial.candidate for trial in result.table]


def test_classes_can_count_the_same(root: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    uneven = trees.make_flat(tmp_path / "data" / "uneven", classes=3, per_class=4)
    for i in range(4, 20):
        (uneven / "class0" / f"{i}.png").write_bytes((uneven / "class0" / "0.png").read_bytes())
    settings = {**SMALL, "pool": "avg", "folds": 2, "flips": False}
    plain = covpool.fit(uneven, out=str(tmp_path / "a"), **settings)
    balanced = covpool.fit(uneven, out=str(tmp_path / "b"), class_weights="balanced", **settings)
    assert not torch.equal(plain.network.classifier.weight, balanced.network.classifier.weight)


def test_fine_tuning_removes_the_last_stride_unless_told_otherwise(result: FitResult) -> None:
    pool = {"name": result.chosen.candidate.pool}
    recipe = Recipe(init={"weights": str(result.checkpoint)}, pool=pool)
    classes = [f"class{i}" for i in range(4)]
    x = torch.randn(1, 3, 64, 64)
    built = build_network(recipe, classes)
    kept = build_network(recipe.changed(model={"keep_last_stride": True}), classes)
    assert any("last stride" in note for note in built.notes) and not any("last stride" in n for n in kept.notes)
    if result.chosen.candidate.level == "":
        assert built.network.features(x).shape[-1] == 2 * kept.network.features(x).shape[-1]
    assert torch.equal(built.network.classifier.weight, result.network.classifier.weight)


def test_bad_input_is_named_in_one_line(root: Path, tmp_path: Path, result: FitResult) -> None:
    def refused(folder: Path, **settings: Any) -> str:
        with pytest.raises((ValueError, OSError)) as caught:
            covpool.fit(folder, **{**SMALL, "out": str(tmp_path / "out"), **settings})
        message = str(caught.value)
        assert "\n" not in message and not (tmp_path / "out").exists()
        return message

    assert "at least two classes" in refused(trees.make_flat(tmp_path / "one", classes=1))
    assert "class0 of" in refused(trees.make_flat(tmp_path / "two", per_class=2))
    (tmp_path / "empty").mkdir()
    assert "one folder of images per class; the folder is empty" in refused(tmp_path / "empty")
    assert "there is no folder" in refused(tmp_path / "nowhere")
    only = trees.make_folder(tmp_path / "only")
    trees.write_image(only / "test" / "extra" / "1.png")
    assert "lacks extra" in refused(only)
    assert "two training images or more" in refused(trees.make_folder(tmp_path / "few", per_class=1))
    assert "no weights file" in refused(root, weights=str(tmp_path / "none.pth"), pretrained=None)
    assert "timm has no model 'resnet5'" in refused(root, backbone="resnet5")
    with pytest.raises(ValueError, match="holds a run already"):
        covpool.fit(root, **{**SMALL, "out": str(result.checkpoint.parent)})


def test_two_training_images_per_class_are_enough(tmp_path: Path) -> None:
    root = trees.make_folder(tmp_path / "data", per_class=2)
    result = covpool.fit(root, out=str(tmp_path / "out"), pool="avg", **SMALL)
    assert result.evaluation.images == 6
