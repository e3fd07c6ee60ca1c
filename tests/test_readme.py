"""The documentation: every Python snippet runs, and versions agree."""

import re
from pathlib import Path

import pytest
import torch

import covpool

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SKIP = "<!-- not run -->"  # on the line before a snippet that needs a data set, a trained model or a download
FENCE = re.compile(rf"^(?P<skip>{SKIP}\n)?```(?P<language>[^\n`]*)\n(?P<code>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


def snippets(text: str) -> list[tuple[int, str]]:
    """Return the line number and the code of every block fenced as ```python, except those marked with SKIP."""
    return [
        (text[: block.start("code")].count("\n"), block["code"])
        for block in FENCE.finditer(text)
        if block["language"].strip() == "python" and not block["skip"]
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snippets run in the order of the page, with one namespace per page."""
    monkeypatch.chdir(tmp_path)  # discards the files that a snippet writes
    torch.manual_seed(0)
    namespace: dict[str, object] = {"__name__": "snippet"}
    for line, code in snippets(page.read_text()):
        exec(compile("\n" * line + code, str(page), "exec"), namespace)


def test_the_readme_shows_python_within_its_first_twelve_lines() -> None:
    first = (ROOT / "README.md").read_text().splitlines()[:12]
    assert "```python" in first


def test_no_info_string_has_more_than_a_language() -> None:
    """MkDocs shows the backticks of any other fence instead of a code block."""
    for page in PAGES:
        for block in FENCE.finditer(page.read_text()):
            assert re.fullmatch(r"\w*", block["language"]), f"{page.name}: ```{block['language']}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_browsers_take_no_formula_for_a_tag(page: Path) -> None:
    """Inner products such as <x, y> must stand in code, or a browser hides them."""
    prose = re.sub(r"`[^`]*`|^    .*$|<!--.*?-->", "", FENCE.sub("", page.read_text()), flags=re.MULTILINE)
    assert re.findall(r"<[A-Za-z][^>]*>", prose) == []


def test_snippets_marked_as_not_run_are_skipped() -> None:
    run, skipped = "```python\nx = 1\n```\n", f"{SKIP}\n```python\n1 / 0\n```\n"
    others = "```\nmake\n```\n```bash\nls\n```\n"
    assert snippets("A page.\n" + run + skipped + others + run) == [(2, "x = 1\n"), (15, "x = 1\n")]


def test_package_and_changelog_have_the_same_version() -> None:
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert covpool.__version__ == next(heading for heading in headings if heading != "Unreleased")
