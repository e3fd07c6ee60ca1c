"""Every Python snippet of the documentation runs, in order, one namespace per page."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def snippets(text: str) -> list[tuple[int, str]]:
    """The line and the text of every block fenced as ```python; those marked ```python no-run are left out."""
    return [
        (text[: block.start("code")].count("\n"), block["code"])
        for block in FENCE.finditer(text)
        if block["info"].split() == ["python"]
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # what a snippet writes is thrown away
    torch.manual_seed(0)
    namespace: dict[str, object] = {"__name__": "snippet"}
    for line, code in snippets(page.read_text()):
        exec(compile("\n" * line + code, str(page), "exec"), namespace)


def test_the_readme_shows_python_within_its_first_twelve_lines() -> None:
    first = (ROOT / "README.md").read_text().splitlines()[:12]
    assert "```python" in first


def test_collects_only_what_is_to_be_run() -> None:
    run, no_run = "```python\nx = 1\n```\n", "```python no-run\n1 / 0\n```\n"
    others = "```\nmake\n```\n```bash\nls\n```\n"
    assert snippets("A page.\n" + run + no_run + others + run) == [(2, "x = 1\n"), (14, "x = 1\n")]
