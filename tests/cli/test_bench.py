import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import covpool
import covpool.cli.bench as bench
from cli.runner import refused, run
from covpool import bench as covpool_bench
from covpool.bench import Record
from covpool.bench import _suites as suites


def test_a_suite_is_printed_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(suites.POOL_SHAPE, "cpu", (2, 9, 8))
    out = tmp_path / "records.jsonl"
    result = run("bench", "pools", "--device", "cpu", "--seconds", 0.01, "--json", out)
    assert result.exit_code == 0 and all(word in result.output for word in ("value", "gradient", "error"))
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["name"] for record in records] == [*covpool.list_pools(), *suites.VARIANTS]
    assert all(name in result.output for name in covpool.list_pools())


FIGURES = {"device_ms": 0.5676, "peak_mib": 1006.3, "launches": 9, "tflops": 90.19, "share_of_limit": 0.138}


def record(name: str, **figures: float) -> Record:
    return Record("isqrt", name, (128, 196, 256), "forward+backward", 2.32, 2.16, 2.46, 2.02, 6e-4, 6.2e-4, figures)


@pytest.mark.parametrize("width", [20, 80, 140])
def test_no_number_is_cut_at_any_width(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    records = [record("covpool, torch operations", **FIGURES, limit_tflops=654.13), record("exact root, covpool eigh")]
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setitem(covpool_bench.SUITES, "isqrt", lambda *_: records)
    bench.command(["isqrt"], device="cpu")
    printed = capsys.readouterr().out
    assert "limit TFLOP/s 654" in " ".join(printed.split())
    for cell in (
        "2.16-2.46",
        "2.02x",
        "6.0e-04",
        "6.2e-04",
        "0.568",
        "1006",
        " 9 ",
        "90.2",
        "14%",
        "gradient",
        "launches",
    ):
        assert cell in printed
    assert "\u2026" not in printed


def test_empty_columns_are_left_out(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    step = replace(record("avg", images_per_s=3930.2), value_error=None, gradient_error=None)
    monkeypatch.setitem(covpool_bench.SUITES, "isqrt", lambda *_: [step])
    bench.command(["isqrt"], device="cpu")
    printed = capsys.readouterr().out
    assert "error" not in printed and "images/s" in printed and "3930" in printed


def test_large_and_small_numbers_are_readable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = replace(record("slow"), median_ms=1012.3, p20_ms=993.2, p80_ms=1048.0, ratio=0.0042)
    monkeypatch.setitem(covpool_bench.SUITES, "isqrt", lambda *_: [slow])
    bench.command(["isqrt"], device="cpu")
    assert "1012 993-1048 0.004x" in " ".join(capsys.readouterr().out.split())


def test_complete_tables_are_printed_before_an_interruption(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> Iterator[Record]:
        yield record("one")
        yield replace(record("two"), shape=(1, 2, 3))
        raise KeyboardInterrupt

    monkeypatch.setitem(covpool_bench.SUITES, "isqrt", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bench.command(["isqrt"], device="cpu")
    assert "128 x 196 x 256" in capsys.readouterr().out


def test_an_unknown_suite_is_refused() -> None:
    assert "did you mean 'isqrt'" in refused("bench", "isqt")


def test_the_help_names_all_suites_and_heads() -> None:
    assert tuple(covpool_bench.SUITES) == bench.SUITES and covpool_bench.HEADS == bench.HEADS


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--seconds", "-1"], "--seconds must be a positive number; got -1"),
        (["--seconds", "nan"], "--seconds must be a positive number; got nan"),
        (["--device", "mps"], "--device must be cpu"),
        (["--model", "torchvision/resnet18", "--size", "0"], "Invalid value for '--size'"),
        (["--model", "torchvision/resnet18", "--batch", "0"], "Invalid value for '--batch'"),
        (["--data", "folder"], "name a backbone with --model"),
        (["train"], "name a folder with --data"),
        (["isqrt", "--setting", "seed=1"], "changes the recipe of the suite 'train'"),
        (["isqrt", "--head", "avg"], "name a backbone with --model"),
        (["--plot", "p.png"], "give both"),
        (["isqrt", "--json", "r.jsonl", "--plot", "p.png"], "plots the suite 'curves'"),
        (["curves", "--json", "r.jsonl", "--plot", "p.xyz"], "must end in one of"),
        (["--json", "."], "Is a directory"),
    ],
)
def test_mistakes_are_reported_before_measuring(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("covpool.bench.SUITES", dict.fromkeys(bench.SUITES, lambda *_: pytest.fail("a suite was run")))
    result = run("bench", *arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
