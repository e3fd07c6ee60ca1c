from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from typer.testing import Result

from cli.runner import refused, run
from covpool.demo import _tiles as demo_tiles
from covpool.engine.training._log import read_log

POOLS = ("avg", "cov", "bcnn", "isqrt")
SMALL = ("--jobs", 1, "--seeds", 2, "--epochs", 1)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Result]]:
    """A demo with a few tiles, one epoch and two seeds, and its output."""
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        for split, most in (("train", 4), ("test", 4), ("val", 1)):
            patch.setitem(demo_tiles.SPLITS, split, replace(demo_tiles.SPLITS[split], most=most))
        patch.setenv("COLUMNS", "200")
        yield out, run("demo", "--out", out, *SMALL)


def table_row(output: str, pool: str) -> list[str]:
    line = next(line for line in output.splitlines() if line.startswith(f"│ {pool} "))
    return [cell.strip() for cell in line.strip("│").split("│")]


def test_the_table_agrees_with_the_logs(made: tuple[Path, Result]) -> None:
    out, result = made
    assert result.exit_code == 0, result.output
    top1 = {}
    for pool in POOLS:
        ends = [read_log(out / "runs" / f"{pool}-{seed}" / "log.jsonl")[-1] for seed in (0, 1)]
        assert all(end["event"] == "end" and end["epoch"] == 1 for end in ends)
        top1[pool] = fmean(end["top1"] for end in ends)
    for pool in POOLS:
        cells = table_row(result.output, pool)
        assert cells[1] == f"{100 * top1[pool]:.1f}"
        low, high = (float(end) / 100 for end in cells[2].split(" to "))
        assert low - 1e-3 <= top1[pool] <= high + 1e-3
        if pool != "avg":
            assert cells[3] == f"{100 * (top1[pool] - top1['avg']):+.1f}"
    assert [table_row(result.output, pool)[5] for pool in POOLS] == ["32", "528", "1,024", "528"]


def test_plot_and_page_are_written_and_self_contained(made: tuple[Path, Result]) -> None:
    out, result = made
    assert "demo.png" in result.output and "demo.html" in result.output
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "demo.html").read_text()
    for text in (
        "iSQRT-COV",
        "no known copyright restrictions",
        "48 test tiles",
        "32 channels at 144 positions",
        "<svg",
        "data:image/png;base64,",
    ):
        assert text in page
    assert "http" not in page
    assert table_row(result.output, "isqrt")[1] in page


def test_a_second_call_trains_nothing(made: tuple[Path, Result]) -> None:
    out, first = made
    before = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/log.jsonl")}
    again = run("demo", "--out", out, *SMALL)
    assert again.exit_code == 0 and len(before) == 8
    assert before == {path: path.stat().st_mtime_ns for path in out.glob("runs/*/log.jsonl")}
    assert [table_row(again.output, pool)[:6] for pool in POOLS] == [
        table_row(first.output, pool)[:6] for pool in POOLS
    ]


def test_mistakes_end_in_one_line(tmp_path: Path, made: tuple[Path, Result]) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    assert "is a file" in refused("demo", "--out", taken)
    assert "other files" in refused("demo", "--out", tmp_path)
    assert "other settings" in refused("demo", "--out", made[0], "--epochs", 2)


def test_ctrl_c_says_how_to_continue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("covpool.demo.train_all", interrupted)
    result = run("demo", "--out", tmp_path / "new")
    assert result.exit_code == 130
    assert "stopped after 0 of 12 runs; run the same command again" in result.output
