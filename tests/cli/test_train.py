"""`covpool train` as a shell runs it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from cli.runner import refused, run
from covpool._errors import DivergedError
from covpool.cli.train import _summary
from covpool.engine.training import Result
from covpool.recipe import read_recipe, to_toml
from tiny import make_tree, tiny_recipe

# Slow imports that a training with a network of torchvision and without a report does not need.
UNUSED = {"timm", "sklearn", "scipy", "matplotlib", "pandas", "transformers", "torchmetrics", "onnx", "covpool.bench"}
PROGRAM = f"""
import gc, sys
collected = []
gc.callbacks.append(lambda phase, info: collected.append(len(sys.modules)))
from covpool.cli import main
try:
    main()
finally:
    print("unused:", *({UNUSED} & sys.modules.keys()))
    # Before and after the imports, it may collect.
    print("modules imported between collections:", max(b - a for a, b in zip(collected, collected[1:])))
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(to_toml(tiny_recipe(make_tree(tmp_path / "tree"), train={"epochs": 1})))
    return path


def test_train_and_resume(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    result = run("train", recipe, "optimizer.lr=0.02", "--run", folder)
    assert result.exit_code == 0, result.output
    assert "epoch 1: loss" in result.stdout and "top-1" in result.stdout and f"is in {folder}" in result.stdout
    assert f"report: {folder / 'report.html'}" in result.stdout and (folder / "report.html").is_file()
    assert result.stdout.endswith(f"next: covpool predict {folder / 'last.safetensors'} IMAGE\n")
    assert read_recipe(folder / "recipe.toml").optimizer.lr == 0.02
    assert "holds a run already" in refused("train", recipe, "--out", folder)
    again = run("train", "--resume", folder, "data.workers=0", "--no-report")
    assert again.exit_code == 0 and "test top-1" in again.stdout
    assert "cannot change in a resumed run" in refused("train", "--resume", folder, "optimizer.lr=1")


def test_a_training_starts_without_unused_imports_and_collections(recipe: Path, tmp_path: Path) -> None:
    settings = ("model.backbone=torchvision/mobilenet_v2", "--run", str(tmp_path / "run"), "--no-report")
    command = [sys.executable, "-c", PROGRAM, "train", str(recipe), *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *_, unused, between = done.stdout.splitlines()
    by_torch = {"sklearn", "scipy", "matplotlib"} if torch.__version__ < "2.9" else set()  # torch 2.8 imports them
    assert set(unused.split()) - by_torch == {"unused:"}
    assert int(between.rpartition(" ")[2]) > 1000


def test_the_report_finds_moved_data(recipe: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert run("train", recipe, "--run", folder, "--no-report").exit_code == 0
    (tmp_path / "tree").rename(tmp_path / "moved")
    result = run("train", "--resume", folder, f"data.root={tmp_path / 'moved'}")
    assert result.exit_code == 0, result.output
    assert "there is no folder" not in (folder / "report.html").read_text()


def test_a_dry_run_prints_every_setting(recipe: Path, tmp_path: Path) -> None:
    result = run("train", recipe, "train.epochs=7", "--dry-run", "--run", tmp_path / "run")
    assert tomllib.loads(result.stdout)["train"]["epochs"] == 7 and not (tmp_path / "run").exists()


def test_a_run_has_the_name_of_its_recipe(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("train", recipe, "name=mine", "--no-report").exit_code == 0
    assert (tmp_path / "runs" / "mine" / "best.safetensors").is_file()


def test_mistakes_are_one_line(recipe: Path, tmp_path: Path) -> None:
    assert "needs a recipe" in refused("train")
    assert "did you mean 'optimizer'" in refused("train", recipe, "optimiser.lr=1")
    assert "there is no folder /no/such" in refused("train", recipe, "data.root=/no/such", "--run", tmp_path / "run")
    assert "there is no folder /no/such" in refused("train", recipe, "--data", "/no/such", "--run", tmp_path / "run")
    assert "not the folder of a run" in refused("train", "--resume", tmp_path)
    assert "leave 'tiny.toml' out" in refused("train", "tiny.toml", "--resume", tmp_path)
    assert "not both" in refused("train", "--resume", tmp_path, "--out", tmp_path / "other")
    assert "this machine has; got accelerator 'abacus'" in refused("train", recipe, "devices.accelerator=abacus")


def test_a_training_that_diverges_has_an_exit_code_of_its_own(recipe: Path, tmp_path: Path) -> None:
    ended = run("train", recipe, "--out", tmp_path / "run", "optimizer.lr=1e15")
    assert ended.exit_code == DivergedError.exit_code == 3
    assert ended.stderr.startswith("covpool: the loss is not finite at step") and ended.stderr.count("\n") == 1


@pytest.mark.parametrize("best_on", ["test", "validation"])
@pytest.mark.parametrize("best_epoch", [0, 97, 100])
def test_the_last_lines_fit_80_columns(best_on: str, best_epoch: int) -> None:
    epoch = best_epoch if best_on == "validation" else 100
    result = Result(Path("runs/finetune"), 100, {"top1": 1.0}, epoch, 1.0, best_epoch, best_on, 12345.6)
    lines = _summary(result).splitlines()
    assert max(map(len, lines)) <= 80 and lines[0] == "100 epochs, 12346 s of training"
    assert any("too optimistic" in line for line in lines) == (best_on == "test" and best_epoch == 97)
