import json
from pathlib import Path

import pytest

import covpool
from cli.runner import run
from covpool.bench import suites


def test_a_suite_is_printed_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(suites.POOL_SHAPE, "cpu", (2, 9, 8))
    out = tmp_path / "records.jsonl"
    result = run("bench", "pools", "--device", "cpu", "--seconds", 0.01, "--json", out)
    assert result.exit_code == 0 and "value error" in result.output and "gradient error" in result.output
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["name"] for record in records] == covpool.list_pools()
    assert all(name in result.output for name in covpool.list_pools())


def test_an_unknown_suite() -> None:
    result = run("bench", "isqt")
    assert result.exit_code == 2 and "isqrt" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "-1"], "--seconds must be a positive number; got -1"),
        (["--seconds", "nan"], "--seconds must be a positive number; got nan"),
        (["--device", "mps"], "--device must be cpu"),
        (["--model", "torchvision/resnet18", "--size", "0"], "Invalid value for '--size'"),
        (["--model", "torchvision/resnet18", "--batch", "0"], "Invalid value for '--batch'"),
        (["--plot", "p.png"], "give both"),
        (["isqrt", "--json", "r.jsonl", "--plot", "p.png"], "draws the suite 'curves'"),
        (["curves", "--json", "r.jsonl", "--plot", "p.xyz"], "must end in one of"),
        (["--json", "."], "Is a directory"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_measured(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("covpool.cli.bench.run_suite", lambda *_: pytest.fail("it measured"))
    result = run("bench", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
