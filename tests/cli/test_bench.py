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
