"""`covpool paper` as a user types it."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from cli.runner import refused, run
from covpool.bench._networks import NetworkCost
from covpool.cli._interrupt import INTERRUPTED, interrupts
from covpool.engine.training import Stopped
from covpool.studies.paper import find_item, list_items
from covpool.studies.paper._trainings import item_trainings


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_list_has_the_state_of_every_item(tmp_path: Path) -> None:
    run_folder = tmp_path / "runs" / "imagenet-alexnet"
    run_folder.mkdir(parents=True)
    (run_folder / "log.jsonl").write_text(json.dumps({"event": "end", "top1": 0.58, "top5": 0.8, "seconds": 1}) + "\n")
    shown = run("paper", "--list").stdout
    assert all(f" {item.name} " in shown for item in list_items())
    assert "1 of 9" in shown and "0 of 14" in shown
    shown = " ".join(run("paper", "table", "2").stdout.split())
    assert "AlexNet paper 41.52 ours 42.00 plain covariance paper 40.41 ours -" in shown


def test_a_wide_table_that_is_full_fits_80_columns(tmp_path: Path) -> None:
    item = find_item("table 13")
    for training in item_trainings(item):
        folder = training.run(tmp_path / "runs")
        folder.mkdir(parents=True)
        (folder / "log.jsonl").write_text(json.dumps({"event": "end", "top1": 0.12345}) + "\n")
        (folder / "evaluation-svm-1.json").write_text(json.dumps({"top1": 0.98765}))
    shown = run("paper", "table", "13").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "missing" not in shown  # pre-training is done only for trainings that are not finished
    assert shown.count("12.35") == shown.count("98.77") == 6 and shown.count("ResNet-50  paper") == 1


def test_a_figure_shows_the_numbers_and_plots_them() -> None:
    result = run("paper", "figure", "6b")
    assert result.exit_code == 0 and "38.45" in result.stdout and Path("runs/paper/figure-6b.png").is_file()
    assert "8 trainings are missing; to run them, add --data imagenet=FOLDER" in result.stdout


def test_a_dry_run_prints_commands() -> None:
    result = run("paper", "table", "12", "--data", "cub=/data/birds", "--dry-run")
    lines = result.stdout.splitlines()
    assert any(line.startswith("covpool train finetune-vgg16_gaussian+cub pool.kind=log") for line in lines)
    assert all("--out runs/" in line for line in lines) and "data.root=/data/birds" in lines[-1]


def test_a_second_interrupt_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training takes the first Ctrl-C and says so; the program must then leave it the second one."""

    def stopped(planned: object, *, on_event: Callable[[Mapping[str, str]], None], **_: object) -> Iterator[None]:
        on_event({"event": "stopping"})
        raise Stopped("stopped at step 7")
        yield

    monkeypatch.setattr(interrupts, "asked", False)
    monkeypatch.setattr("covpool.studies.paper.run_trainings", stopped)
    ended = run("paper", "table", "12", "--data", "cub=/data/birds")
    assert ended.exit_code == INTERRUPTED and interrupts.asked
    assert "press Ctrl-C again to stop at once" in ended.stdout
    assert "stopped at step 7; run the same command again to resume" in ended.stdout


def test_torchmetrics_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[None] = []
    monkeypatch.setattr("covpool.cli._paper_items.import_fabric", lambda: called.append(None))
    run("paper", "--list")
    run("paper", "table", "2")
    assert len(called) == 2


def test_table_1_is_measured() -> None:
    result = run("paper", "table", "1", "--measure", "--seconds", 0.01, "--device", "cpu")
    assert result.exit_code == 0, result.output
    assert json.loads(Path("runs/paper/table-1.json").read_text())["rows"]["EIG"]["one_ms"] > 0


def test_every_row_is_measured_with_the_batch_of_its_item(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    batches: list[int] = []

    def measured(recipe: object, device: object, seconds: float, *, batch: int) -> NetworkCost:
        batches.append(batch)
        return NetworkCost(*(float(batch) for _ in fields(NetworkCost)))

    monkeypatch.setattr("covpool.bench.measure_network", measured)
    for kind, number in (("table", "15"), ("figure", "6c"), ("table", "14")):
        result = run("paper", kind, number, "--measure", "--device", "cpu")
        assert result.exit_code == 0, result.output
    assert "measuring in one process" in run("paper", "figure", "6c", "--measure", "--device", "cpu").stdout
    figure = [16, 32, 64, 128, 256] * 2
    assert batches == [*[1] * 5, *figure, *[4] * 13, *figure]
    kept = json.loads(Path("runs/paper/figure-6c.json").read_text())
    assert kept["rows"]["MPN-COV, batch 32"]["pool_delta_mib"] == 16 and kept["processes"] == 1 and kept["commit"]


def test_mistakes() -> None:
    assert "the paper has no table 16" in refused("paper", "table", "16")
    assert "--data must be NAME=FOLDER" in refused("paper", "table", "8", "--data", "birds")
    assert "table 8 has nothing to measure" in refused("paper", "table", "8", "--measure")
    assert "needs data.root with folders named cub, aircraft" in refused("paper", "table", "8", "data.root=x")
