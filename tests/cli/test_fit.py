"""`covpool fit` as a user types it, and the whole way from a flat folder to a fine-tuned network."""

import json
from pathlib import Path
from urllib.error import URLError

import pytest
import torchvision

import trees
from cli.runner import refused, run
from covpool.io import read_checkpoint

SMALL = ("backbone=test_resnet", "pretrained=false", "width=8", "size=64", "data.workers=0", "--device", "cpu")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trees.make_flat(tmp_path_factory.mktemp("data") / "stripes", classes=10, per_class=6)


@pytest.fixture(scope="module")
def out(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit") / "run"
    result = run("fit", root, "pool=[avg, gaussian]", *SMALL, "--out", folder)
    assert result.exit_code == 0, result.output
    (folder / "printed.txt").write_text(result.output)
    return folder


@pytest.fixture(scope="module")
def isqrt(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a covariance pool with its reduction; of several pools, `fit` may choose a simpler one."""
    folder = tmp_path_factory.mktemp("fit") / "isqrt"
    result = run("fit", root, "pool=isqrt", *SMALL, "--out", folder, "--no-report")
    assert result.exit_code == 0, result.output
    return folder / "best.safetensors"


def test_table_accuracy_and_files(out: Path) -> None:
    printed = (out / "printed.txt").read_text()
    assert "comparing 2 candidates by cross-validation on the training images (64 px)" in printed
    assert "chosen" in printed and "test accuracy" in printed and "95 % interval" in printed and "worst" in printed
    assert "the simplest candidate within one standard error of the best one is chosen" in " ".join(printed.split())
    assert f"next: covpool predict {out / 'best.safetensors'} IMAGE" in printed.replace("\n", "")
    assert f"checkpoint: {out / 'best.safetensors'}" in printed.replace("\n", "")
    page = (out / "report.html").read_text()
    assert "Choice by cross-validation" in page and "Learning curves" not in page and "not finished" not in page


def test_a_classifier_that_stops_before_its_tolerance_is_named(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covpool.engine.classifiers._logistic.TOLERANCE", 0.0)
    result = run("fit", root, "pool=avg", *SMALL, "--out", tmp_path / "run", "--no-report")
    assert "the classifier did not converge" in result.output
    training = read_checkpoint(tmp_path / "run" / "best.safetensors").training
    assert training is not None and training.notes["chosen"]["converged"] is False


def test_the_report_can_be_written_again(out: Path, root: Path) -> None:
    (out / "report.html").unlink()
    result = run("report", out, "--device", "cpu", "--root", root)
    assert result.exit_code == 0 and (out / "report.html").is_file(), result.output


def test_a_fit_is_predicted_evaluated_exported_and_fine_tuned(isqrt: Path, root: Path, tmp_path: Path) -> None:
    predicted = run("predict", isqrt, root / "class3" / "0.png", "--json", "--device", "cpu")
    assert predicted.exit_code == 0, predicted.output
    found = tmp_path / "found.json"
    evaluated = run("eval", isqrt, "--workers", 0, "--device", "cpu", "--json", found)
    assert evaluated.exit_code == 0, evaluated.output
    training = read_checkpoint(isqrt).training
    assert training is not None and json.loads(found.read_text())["top1"] == training.metrics["top1"]
    exported = run("export", isqrt, "--to", "onnx", "--out", tmp_path / "model.onnx")
    assert exported.exit_code == 0 and (tmp_path / "model.onnx").is_file(), exported.output
    recipe = _recipe(tmp_path, isqrt, root)
    tuned = run("train", recipe, f"init.weights={isqrt}", "--out", tmp_path / "tuned", "--no-report")
    assert "images split at random: 50 train, 10 test (data.split_seed=0)" in tuned.output, tuned.output
    assert tuned.exit_code == 0 and "last stride of the fitted backbone is removed" in tuned.output, tuned.output
    kept, before = (read_checkpoint(path).data for path in (tmp_path / "tuned" / "last.safetensors", isqrt))
    assert kept is not None and before is not None and kept.fingerprints == before.fingerprints


def test_a_fit_embeds_images_and_finds_neighbours(isqrt: Path, root: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.npz"
    embedded = run("embed", root, "--model", isqrt, "--out", vectors, "--workers", 0, "--device", "cpu")
    assert embedded.exit_code == 0, embedded.output
    found = run("neighbours", root / "class3" / "0.png", "--in", vectors, "--json")
    assert found.exit_code == 0, found.output
    nearest = json.loads(found.output)["neighbours"]
    assert len(nearest) == 5 and nearest[0]["class"] == "class3", nearest


def test_another_split_is_refused(out: Path, root: Path, tmp_path: Path) -> None:
    checkpoint = out / "best.safetensors"
    weights = f"init.weights={checkpoint}"
    recipe = _recipe(tmp_path, checkpoint, root)
    message = refused("train", recipe, weights, "data.split_seed=5", "--out", tmp_path / "run")
    assert "keeps a random split (split_seed=0" in message and not (tmp_path / "run").exists()
    copy = trees.make_flat(tmp_path / "copy" / "stripes", classes=10, per_class=7)
    assert "got other files" in refused("eval", checkpoint, "--data", copy, "--workers", 0, "--device", "cpu")


def test_a_backbone_without_weights_is_refused(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise URLError("no route")

    monkeypatch.setattr(torchvision.models, "get_model", unreachable)
    message = refused("fit", root, "backbone=torchvision/resnet18", "--out", tmp_path / "run", "--device", "cpu")
    assert (
        "resnet18' could not be downloaded" in message
        and "give a file (weights=FILE" in message
        and not (tmp_path / "run").exists()
    )


def test_mistakes_end_in_one_line(root: Path, tmp_path: Path, out: Path) -> None:
    assert "there is no folder" in refused("fit", tmp_path / "none", *SMALL)
    assert "did you mean 'isqrt'" in refused("fit", root, "pool=isqr")
    assert "holds a run already" in refused("fit", root, *SMALL, "--out", out)
    assert "it has no recipe.toml" in refused("train", "--resume", out)


def _recipe(folder: Path, checkpoint: Path, root: Path) -> Path:
    architecture = read_checkpoint(checkpoint).architecture
    path = folder / "tune.toml"
    path.write_text(
        f'[data]\nroot = "{root}"\nworkers = 0\n[augment]\nsize = 64\nresize = [64]\n'
        f'[pool]\nname = "{getattr(architecture, "pool", "")}"\n'
        '[optimizer]\nlr = 0.001\n[train]\nepochs = 1\nbatch_size = 10\n[devices]\naccelerator = "cpu"\n'
    )
    return path
