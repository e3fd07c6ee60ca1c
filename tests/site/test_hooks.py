"""The hooks of the site."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def load(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("docstring", "markdown"),
    [
        ("Pool.\n\n>>> 1 + 1\n2", "Pool.\n\n```pycon\n>>> 1 + 1\n2\n```"),
        ("Formula: z = <x, y>\nSize: c\n\nMore.", "**Formula:** `z = <x, y>`\n\n**Size:** `c`\n\n\nMore."),
        ("The product <x, y> and `<z>`.", "The product &lt;x, y> and `<z>`."),
        (
            "Args:\n    a, b: Numbers\n        of two.",
            "Args:\n    a: Numbers\n        of two.\n    b: Numbers\n        of two.",
        ),
    ],
)
def test_docstrings_become_markdown(docstring: str, markdown: str) -> None:
    assert load("docstrings").to_markdown(docstring) == markdown


def test_latex_becomes_mathml() -> None:
    page = 'As <span class="arithmatex">\\(a &lt; b\\)</span> and <div class="arithmatex">\\[\\sqrt{x}\\]</div>'
    content = load("hooks").on_page_content(page)
    assert "<mo>&#x0003C;</mo>" in content and "<msqrt>" in content and 'display="block"' in content
    assert "arithmatex" not in content
