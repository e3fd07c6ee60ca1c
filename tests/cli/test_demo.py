from pathlib import Path

from cli.runner import run


def test_it_shows_every_pool_and_writes_a_plot(tmp_path: Path) -> None:
    result = run("demo", "--out", tmp_path / "demo")
    assert result.exit_code == 0
    for text in ("avg", "isqrt", "gaussian", "demo.png"):
        assert text in result.output
    assert (tmp_path / "demo" / "demo.png").read_bytes().startswith(b"\x89PNG")
