"""The scripts and the notebook in examples/ run."""

import json
import re
import runpy
import sys
from pathlib import Path

import pytest
import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


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


def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    cells = json.loads((EXAMPLES / "finetune_folder.ipynb").read_text())["cells"]
    namespace: dict[str, object] = {"__name__": "notebook"}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"], "clear the outputs before you commit"
            exec("".join(cell["source"]), namespace)
    printed = capsys.readouterr().out
    assert "on the test images after epoch 3" in printed and "epoch 1: top-1 " in printed
    assert (tmp_path / "runs" / "finetune" / "last.safetensors").is_file()
