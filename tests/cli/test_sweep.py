"""`covpool sweep` as a user types it."""

import csv
import json
from pathlib import Path

import pytest

from cli.runner import refused, run
from covpool.recipe import to_toml
from tiny import make_tree, tiny_recipe


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(to_toml(tiny_recipe(make_tree(tmp_path / "data", train=8), train={"epochs": 1})))
    return path


def test_a_failed_run_does_not_stop_the_sweep(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "swept"
    asked = ("sweep", recipe, "train.batch_size=[4,1000]", "seed=[0,1]", "--out", out)
    result = run(*asked)
    assert result.exit_code == 1, result.output
    assert f"in {out}: sweep.csv, sweep.jsonl, sweep.png" in result.output
    assert "1 of 4: train.batch_size=4,seed=0" in result.output
    assert "train.batch_size=1000,seed=1 failed: CovpoolError" in result.output
    with (out / "sweep.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["train.batch_size"], row["finished"], row["failed"]) for row in rows] == [
        ("4", "2", "0"),
        ("1000", "0", "2"),
    ]
    runs = [json.loads(line) for line in (out / "sweep.jsonl").read_text().splitlines()]
    assert [line["status"] for line in runs] == ["finished", "finished", "failed", "failed"]
    assert float(rows[0]["top1_mean"]) == pytest.approx((runs[0]["top1"] + runs[1]["top1"]) / 2, abs=1e-6)
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")
    again = run(*asked)
    assert again.exit_code == 1 and "1 of 4" not in again.output and "3 of 4" in again.output


def test_a_sweep_with_failures_only(recipe: Path, tmp_path: Path) -> None:
    out = tmp_path / "not" / "there"
    result = run("sweep", recipe, "seed=[0,1]", "data.root=/nope", "--out", out)
    assert result.exit_code == 1, result.output
    assert "seed=1 failed: CovpoolError: there is no folder /nope" in result.output
    assert f"in {out}: sweep.csv" in result.output
    runs = [json.loads(line) for line in (out / "sweep.jsonl").read_text().splitlines()]
    assert [line["status"] for line in runs] == ["failed", "failed"]


def test_a_dry_run_lists_the_runs(recipe: Path, tmp_path: Path) -> None:
    result = run("sweep", recipe, "seed=[0,1]", "--out", tmp_path / "swept", "--dry-run")
    assert result.output.splitlines() == [str(tmp_path / "swept" / f"seed={s}") for s in (0, 1)]
    assert not (tmp_path / "swept").exists()


def test_mistakes(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "several values" in refused("sweep", recipe, "seed=0")
    assert "did you mean 'optimizer.lr'" in refused(
        "sweep", recipe, "optimizer.lrr=[0.1,1]", "--out", tmp_path / "swept"
    )
    assert "positive integer" in refused("sweep", recipe, "pool.iterations=[1,0]", "--out", tmp_path / "swept")
    assert not (tmp_path / "swept").exists()
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "one process" in refused("sweep", recipe, "seed=[0,1]")


def test_the_help_keeps_its_brackets() -> None:
    assert "table.key=[a,b,c]" in run("sweep", "--help").output
