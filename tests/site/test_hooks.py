"""The hooks of the site."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import covpool
from covpool.cli.app import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"


pytest.importorskip("griffe", reason="the hooks need the extra docs")
pytest.importorskip("latex2mathml", reason="the hooks need the extra docs")


def load(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


POOL_PAGES = load("pool_pages")


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


def test_formulas_in_docstrings_become_latex() -> None:
    text = load("docstrings").to_markdown("The result is x / sqrt(|x|^2 +\n    eps), and `sqrt(t) Y` stays.")
    assert text == r"The result is $x / \sqrt{\lVert x \rVert^2 + \varepsilon}$, and `sqrt(t) Y` stays."


def test_every_formula_stands_in_a_docstring() -> None:
    source = " ".join(" ".join(path.read_text().split()) for path in DOCS.parent.glob("src/covpool/**/*.py"))
    assert [one for one in load("formulas").FORMULAS if one not in source] == []


def test_latex_becomes_mathml() -> None:
    page = 'As <span class="arithmatex">\\(a &lt; b\\)</span> and <div class="arithmatex">\\[\\sqrt{x}\\]</div>'
    content = load("hooks").on_page_content(page)
    assert "<mo>&#x0003C;</mo>" in content and "<msqrt>" in content and 'display="block"' in content
    assert "arithmatex" not in content


def test_numbers_in_tables_stay_in_one_piece() -> None:
    content = load("hooks").on_page_content("1e-3 <table><td>6.0e-4, 3e-8</td></table>")
    number = '<span class="number">{}</span>'
    cells = f"{number.format('6.0e-4')}, {number.format('3e-8')}"
    assert content == f'1e-3 <div class="table"><table><td>{cells}</td></table></div>'


def test_a_notebook_becomes_a_page() -> None:
    text = load("hooks").on_page_markdown("<!-- notebook examples/finetune_folder.ipynb -->")
    assert text.startswith("# Fine-tune a folder of images\n") and text.count("```python\n") == 5


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"U \operatorname{diag}(x)", '<mo lspace="0.167em" rspace="0">diag</mo><mo stretchy="false">&#x00028;</mo>'),
        (r"\operatorname{tr} x", '<mo lspace="0.167em" rspace="0.167em">tr</mo><mi>x</mi>'),
        (r"\log x", '<mo lspace="0.167em" rspace="0.167em">log</mo><mi>x</mi>'),
        (r"x y", "<mi>x</mi><mi>y</mi>"),
        (r"\operatorname{log1p}(r)", '<mo lspace="0.167em" rspace="0">log1p</mo><mo stretchy="false">&#x00028;</mo>'),
        (r"\mathrm{d}F", '<mi mathvariant="normal">&#x00064;</mi><mi>F</mi>'),
    ],
)
def test_names_of_functions_are_spaced(latex: str, expected: str) -> None:
    assert expected in load("hooks").mathml(latex, display=False)


@pytest.mark.parametrize("name", covpool.list_pools())
def test_the_snippet_on_the_page_of_a_pool_runs(name: str) -> None:
    exec(POOL_PAGES.snippet(name), {})


def test_the_page_of_a_pool_gives_its_cost_and_measured_accuracy() -> None:
    """The numbers are those of docs/results.md."""
    text = POOL_PAGES.facts("isqrt")
    costs = (DOCS / "results.md").read_text().partition("## Cost on one NVIDIA H200")[2]
    milliseconds = re.search(r"^\| `isqrt` \| [\d.]+ \| ([\d.]+) \|", costs, re.MULTILINE)
    assert milliseconds and "| 32,896 |" in text and f"| {milliseconds[1]} ms |" in text
    assert "224 px | 71.4 % (70.2 to 72.5); against `avg` +4.6 to +6.4 points |" in text
    assert "320 px | 75.3 % (74.1 to 76.4); against `avg` +9.0 to +11.0 points |" in text


def test_generated_sections_stand_before_the_paper() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="methods/avg.md"))
    text = POOL_PAGES.on_page_markdown("# avg\n\n## Paper\n\nLin", page=page)
    assert text.startswith("# avg\n\n## In code\n\n```python\n") and text.endswith("## Paper\n\nLin")
    elsewhere = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    assert POOL_PAGES.on_page_markdown("# covpool", page=elsewhere) == "# covpool"


def test_the_reference_of_the_command_line_has_every_command_and_option() -> None:
    text = load("command_pages").on_page_markdown("<!-- commands of covpool -->")
    headings = re.findall(r"^##+ covpool (.+)$", text, re.MULTILINE)
    assert {"fit", "train", "predict", "paper claims"} <= set(headings) and set(COMMANDS) <= set(headings)
    assert "covpool predict CHECKPOINT IMAGES... [OPTIONS]" in text
    assert "| `--top` | Number of classes to show for each image. |" in text


def test_the_reference_of_operations_opens_with_functions_and_has_every_name() -> None:
    page = (DOCS / "reference" / "ops.md").read_text()
    hooks = load("hooks")
    text = hooks.on_page_markdown(page)
    anchors = re.findall(r'id="covpool\.ops\.(\w+)"', text)
    assert anchors[:2] == ["covariance", "isqrt_covariance"] and "<!--" not in text
    assert sorted(anchors) == sorted(hooks.exported(covpool.ops)) and len(set(anchors)) == len(anchors)


def test_names_of_a_package_are_functions_then_classes_then_the_rest() -> None:
    names = load("hooks").names_of("covpool")
    assert names.index("attach") < names.index("Network") < names.index("ops")


def test_figures_scroll_on_narrow_screens() -> None:
    content = load("hooks").on_page_content('<p><img alt="a" src="b.png"></p><p><img src="c.png"> text</p>')
    assert content == '<p class="figure"><img alt="a" src="b.png"></p><p><img src="c.png"> text</p>'
