"""`covpool eval` and `covpool predict` as a user types them."""

import json
from pathlib import Path

import pytest
import torch

import covpool
from cli.runner import refused, run
from covpool.cli.eval import data_of
from covpool.data._settings import Data, ResolvedAugment
from covpool.data.pipeline import data_split, preprocessing
from covpool.data.sets import open_data
from covpool.engine.training import train
from tiny import make_tree, tiny_recipe
from trees import break_image, make_dtd, make_folder

CLASSES = ["class0", "class1", "class2"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "data", classes=3, per_class=4)


@pytest.fixture
def checkpoint(tmp_path: Path, root: Path) -> Path:
    torch.manual_seed(0)
    network = covpool.attach("test_resnet", "isqrt", 3, reduce_to=8)
    network(torch.randn(8, 3, 32, 32))
    path = tmp_path / "model.safetensors"
    prepared = preprocessing(ResolvedAugment(size=32, resize=(36,)))
    covpool.save(network, path, class_names=CLASSES, preprocessing=prepared, data=data_split(Data(root=str(root))))
    return path


def test_accuracy_with_interval_and_worst_classes(checkpoint: Path, root: Path, tmp_path: Path) -> None:
    out = tmp_path / "not" / "there" / "found.json"
    result = run("eval", checkpoint, "--data", root, "--workers", 0, "--device", "cpu", "--flip", "--json", out)
    assert result.exit_code == 0, result.output
    assert "top-1" in result.output and "worst classes" in result.output
    assert "12 images; central crop, averaged over flips; calibration" in result.output
    found = json.loads(out.read_text())
    assert found["images"] == 12 and sorted(row["name"] for row in found["by_class"]) == CLASSES
    assert f"{found['top1']:.2%}" in result.output


def test_the_data_set_of_the_recipe_is_the_default(checkpoint: Path) -> None:
    result = run("eval", checkpoint, checkpoint, "--workers", 0, "--device", "cpu", "--crops", 10)
    assert result.exit_code == 0 and "12 images; ten crops; calibration" in result.output


def test_without_options_the_evaluation_is_that_of_the_training(tmp_path: Path) -> None:
    """Flips, precision and skipped images come from the checkpoint; options replace them."""
    tree = make_tree(tmp_path / "tree", train=4)
    break_image(tree / "test" / "red" / "0.png")
    recipe = tiny_recipe(
        tree, evaluate={"flip": True}, train={"precision": "bf16", "epochs": 1}, data={"broken": "skip"}
    )
    trained = train(recipe, tmp_path / "run").metrics
    out = tmp_path / "found.json"
    result = run("eval", tmp_path / "run" / "last.safetensors", "--workers", 0, "--device", "cpu", "--json", out)
    assert "11 images; 1 skipped; central crop, averaged over flips, in bf16" in result.output, result.output
    found = json.loads(out.read_text())
    assert [found[k] for k in ("top1", "top3", "top5")] == [trained[k] for k in ("top1", "top3", "top5")]
    assert (found["crops"], found["flip"], found["precision"]) == (1, True, "bf16")
    best = run("eval", tmp_path / "run" / "best.safetensors", "--workers", 0, "--device", "cpu", "--no-flip")
    assert "1 skipped; central crop, in bf16" in best.output
    assert "is the best epoch on these test images, so its accuracy is too optimistic" in best.output
    assert "too optimistic" not in result.output
    image = tree / "test" / "red" / "1.png"
    asked = ("predict", tmp_path / "run" / "last.safetensors", image, "--json", "--device", "cpu")
    assert run(*asked).output == run(*asked, "--flip").output != run(*asked, "--no-flip").output


def test_scores_that_are_not_finite_are_an_error(checkpoint: Path, root: Path, tmp_path: Path) -> None:
    """No accuracy with an interval, and no JSON that is none: the image and the first module are named."""
    network, kept = covpool.load(checkpoint), covpool.io.read_checkpoint(checkpoint)
    with torch.no_grad():
        network.features.body.layer2[0].conv1.weight[0, 0] = torch.nan
    spoilt = tmp_path / "spoilt.safetensors"
    covpool.save(network, spoilt, class_names=CLASSES, preprocessing=kept.preprocessing, data=kept.data)
    said = "png: NaN or inf first appeared in the output of features.body.layer2.0.conv1 (Conv2d)"
    evaluated = refused("eval", spoilt, "--workers", 0, "--device", "cpu")
    assert "the network gives NaN or inf for " in evaluated and said in evaluated
    assert "test_0_0" in evaluated
    assert said in refused("eval", spoilt, "--workers", 0, "--device", "cpu", "--classifier", "svm")
    result = run("predict", spoilt, root / "test" / "class1", "--json", "--device", "cpu")
    assert result.exit_code == 2 and not result.stdout and said in result.stderr


def test_another_data_set_does_not_use_the_split_of_the_recipe(tmp_path: Path) -> None:
    network, path = covpool.attach("test_resnet", "avg", 3), tmp_path / "model.safetensors"
    trained = Data(name="dtd", root="textures", split=7, train_on="train+val", test_on="test")
    covpool.save(network, path, data=data_split(trained))
    assert data_of(path, "", 0) == data_of(path, "dtd:textures", 0) == trained
    assert data_of(path, "copy", 2) == trained.changed(root="copy", split=2)
    assert data_of(path, "folder:birds", 0) == Data(name="folder", root="birds")


def test_checkpoints_of_different_splits_are_not_fused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    textures, paths = make_dtd(tmp_path / "textures"), []
    for split in (1, 2):
        data = Data(name="dtd", root=str(textures), split=split, train_on="train+val")
        splits = open_data(data)
        network = covpool.attach("test_resnet", "avg", 3)
        paths.append(tmp_path / f"{split}.safetensors")
        prepared, kept = preprocessing(ResolvedAugment(size=32, resize=(36,))), data_split(data, splits)
        covpool.save(network, paths[-1], class_names=splits.train.classes, preprocessing=prepared, data=kept)
    asked = ("eval", *paths, "--workers", 0, "--device", "cpu")
    assert "2.safetensors was trained on split 2 of dtd" in refused(*asked)
    assert "was trained on split 1 of dtd" in refused("eval", paths[0], "--split", 3, "--workers", 0)
    result = run(*asked, "--force")
    assert result.exit_code == 0, result.output
    assert "The accuracy is not a result" in caplog.text


def test_mistakes(checkpoint: Path, root: Path, tmp_path: Path) -> None:
    assert "no folder" in refused("eval", checkpoint, "--data", tmp_path / "none")
    assert "`--crops` must be one of [0, 1, 10]; got 5" in refused("eval", checkpoint, "--crops", 5)
    assert "`--classifier` must be one of" in refused("eval", checkpoint, "--classifier", "forest")
    assert "leave --crops out" in refused("eval", checkpoint, "--classifier", "svm", "--crops", 10)
    assert "--device must be cpu" in refused("eval", checkpoint, "--device", "abacus", "--workers", 0)
    assert "there is no file" in refused("eval", tmp_path / "none.safetensors")
    assert "train_test_split.txt" in refused("eval", checkpoint, "--data", f"cub:{root}")
    assert "one official split; got 3 for 'folder'" in refused("eval", checkpoint, "--split", 3)
    assert "--workers must be 0" in refused("eval", checkpoint, "--workers", -1)
    (root / "test" / "class1" / "test_1_0.png").write_text("not an image")  # refused only when it is read
    assert "the image numbers of inat2018" in refused(
        "eval", checkpoint, "--workers", 0, "--submission", tmp_path / "answers.csv"
    )


def test_predictions_as_table_and_json(checkpoint: Path, root: Path) -> None:
    images = sorted((root / "test" / "class1").iterdir())
    table = run("predict", checkpoint, images[0], "--top", 2, "--device", "cpu")
    assert table.exit_code == 0 and "%" in table.output
    result = run("predict", checkpoint, root / "test" / "class1", "--json", "--device", "cpu")
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert [line["image"] for line in lines] == [str(path) for path in images]
    for line in lines:
        values = [entry["probability"] for entry in line["classes"]]
        assert sum(values) == pytest.approx(1, abs=1e-5) and values == sorted(values, reverse=True)


def test_a_broken_image_is_named_and_the_others_are_predicted(checkpoint: Path, root: Path) -> None:
    images = sorted((root / "test" / "class1").iterdir())
    break_image(images[1])
    result = run("predict", checkpoint, *images, "--json", "--device", "cpu")
    lines = [json.loads(line) for line in result.output.splitlines()]
    assert result.exit_code == 1 and len(lines) == len(images)
    assert "error" in lines[1] and lines[0]["classes"] and lines[2]["classes"]


def test_a_broken_image_is_refused_and_skip_broken_suggested(checkpoint: Path, root: Path) -> None:
    (root / "test" / "class1" / "test_1_0.png").write_text("not an image")
    said = refused("eval", checkpoint, "--workers", 0, "--device", "cpu")
    assert "test_1_0.png cannot be read (not an image, or damaged)" in said and "add --skip-broken" in said
    assert "11 images; 1 skipped" in run("eval", checkpoint, "--workers", 0, "--skip-broken").output


def test_names_with_brackets_are_shown_literally(checkpoint: Path, root: Path, tmp_path: Path) -> None:
    image = next((root / "test" / "class1").iterdir())
    odd = tmp_path / "[red]bird[" / "] ä.png"
    odd.parent.mkdir()
    odd.write_bytes(image.read_bytes())
    result = run("predict", checkpoint, odd, "--device", "cpu")
    assert result.exit_code == 0 and "[red]bird[/] ä.png" in result.output


def test_nothing_to_predict(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "no images" in refused("predict", checkpoint, tmp_path / "empty")
    assert "no file" in refused("predict", checkpoint, tmp_path / "none.jpg")
