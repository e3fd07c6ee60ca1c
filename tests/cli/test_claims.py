"""`covpool paper claims` and `covpool advise`."""

import json
from pathlib import Path

import pytest

import trees
from cli.runner import refused, run
from studies.claims.test_run import make_subject


def test_the_scoreboard_as_table_and_json() -> None:
    shown = json.loads(run("paper", "claims", "--json").stdout)
    assert len(shown) == 17 and shown[0]["results"]["cub200"]["verdict"] == "confirmed"
    one = run("paper", "claims", "5").stdout
    assert "trace as good as Frobenius norm" in one and "confirmed" in one


def test_missing_experiments_are_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.cli._claims._subject", lambda asked, weights: make_subject(tmp_path))
    typed = ("paper", "claims", "5", "--run", "--data", "tiny=x", "--records", tmp_path / "mine", "--device", "cpu")
    assert "2 of 2 missing" in run(*typed).stdout
    assert "0 of 0 missing" in run(*typed).stdout
    lines = [json.loads(line) for line in (tmp_path / "mine" / "claims_tiny.jsonl").read_text().splitlines()]
    assert {line["arm"] for line in lines} == {"isqrt", "isqrt:prenorm=frobenius"}
    assert all(line["commit"] and line["device"] and line["command"] for line in lines)


def test_mistakes_are_refused() -> None:
    assert "there is no claim 6" in refused("paper", "claims", "6")
    assert "add --run" in refused("paper", "claims", "--data", "cub200=x")
    assert "--run needs --records" in refused("paper", "claims", "--run")
    assert "NAME=FOLDER" in refused("paper", "claims", "--run", "--records", "mine", "--data", "cub200")


def test_advice_for_a_folder(tmp_path: Path) -> None:
    root = trees.make_folder(tmp_path, classes=3, per_class=4)
    shown = run("advise", root).stdout
    assert "3 classes, 12 training images (4 to 4 per class, median 4), shorter side 32 px" in shown
    assert f"next: covpool fit {root}" in shown.replace("\n", "")
    told = json.loads(run("advise", root, "--json").stdout)
    assert told["folder"]["classes"] == 3 and told["advice"]["command"].startswith("covpool fit")
