"""The scripts and the notebook in examples/ run."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

from covpool._errors import MissingPackageError
from covpool.demo._packages import CHARACTERS, WEIGHTS, locate
from demo.stand_ins import use_stand_ins

EXAMPLES = Path(__file__).parents[1] / "examples"


def missing() -> bool:
    """Whether a package of the demo is missing."""
    try:
        return not all(locate(*file) for file in (CHARACTERS, WEIGHTS))
    except MissingPackageError:
        return True


def run(name: str, *arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_the_training_loop_learns_from_correlations(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run("own_training_loop.py", "--steps", "20", monkeypatch=monkeypatch)
    found = {name: float(percent) for name, percent in re.findall(r"(\w+): ([\d.]+)%", capsys.readouterr().out)}
    assert found["avg"] < 65 and found["isqrt"] > 90


@pytest.mark.long
def test_frozen_features_choose_a_pool(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("frozen_features.py", monkeypatch=monkeypatch)
    assert re.search(r"[\d.]+% in cross-validation with .*'covariancefeatures__pool'", capsys.readouterr().out)


@pytest.mark.long
def test_an_exported_checkpoint_agrees(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run("deploy.py", monkeypatch=monkeypatch)
    error = re.search(r"model.pt2: differs by (\S+) of", capsys.readouterr().out)
    assert error and float(error[1]) < 1e-4


def run_notebook(folder: Path, monkeypatch: pytest.MonkeyPatch, *, batch_size: int = 30) -> None:
    monkeypatch.chdir(folder)
    torch.manual_seed(0)
    cells = json.loads((EXAMPLES / "finetune_folder.ipynb").read_text())["cells"]
    namespace: dict[str, object] = {"__name__": "notebook"}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "clear the outputs before you commit"
            source = "".join(cell["source"]).replace("train.batch_size=30", f"train.batch_size={batch_size}")
            exec(source, namespace)
    assert (folder / "runs" / "finetune" / "last.safetensors").is_file()


def test_the_notebook_runs_on_stand_ins_for_the_images_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use_stand_ins(tmp_path / "packages", monkeypatch)
    run_notebook(tmp_path, monkeypatch, batch_size=6)
    printed = capsys.readouterr().out
    assert "on the test images after epoch 5" in printed and "epoch 1: top-1 " in printed


@pytest.mark.long
@pytest.mark.skipif(missing(), reason="the packages of the demo are not installed (make demo)")
def test_the_notebook_learns_on_the_images_of_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_notebook(tmp_path, monkeypatch)
    found = re.search(r"top-1 ([\d.]+)% on the test images after epoch 5", capsys.readouterr().out)
    assert found and float(found[1]) > 70
    images = {subset: len(list((tmp_path / "digits" / subset).rglob("*.png"))) for subset in ("train", "test")}
    assert images == {"train": 250, "test": 250}
