"""Hooks of mkdocs: the navigation of the pools' pages, the reference, notebooks as pages, and mathematics as MathML."""

import ast
import html
import importlib
import inspect
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from latex2mathml.converter import convert

import covpool

ROOT = Path(__file__).parents[1]
MATHS = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
GROUP = re.compile(r"<!-- names of ([\w.]+): (.+?) -->")
OTHERS = re.compile(r"<!-- other names of ([\w.]+) -->")
SPELLED = re.compile(r"<mo /><mrow>((?:<m[in]>\w</m[in]>)+)</mrow>")  # a name with digits, letter by letter
UPRIGHT = re.compile(r"<mi>(&#x000[4-7][0-9A-F];)</mi>")  # a letter of \mathrm
NAME = re.compile(r"<m[io]((?: [^>]*)?)>([A-Za-z]{2}\w*)</m[io]>((?:<mrow>)?<mo[^>]*>(?:&#x00028;|\[))?")


def on_config(config: Any) -> Any:
    """List all pages of docs/methods in the section "Pools" of the navigation."""
    pages = sorted((Path(config["docs_dir"]) / "methods").glob("*.md"))
    pools = next(section["Pools"] for section in config["nav"] if "Pools" in section)
    pools.extend({page.stem: f"methods/{page.name}"} for page in pages)
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the comments "names of PACKAGE" by the reference of its names, and "notebook FILE" by its cells.

    "names of PACKAGE: NAME, NAME" gives these names below a heading, and "other names of PACKAGE" those that the page
    does not give otherwise. Powers of ten in the texts of recipes, which are also printed in a terminal, become
    formulas.
    """
    markdown = re.sub(r"(?<![`$])\b10\^(-[\d.]*\d)", r"$10^{\1}$", markdown)
    markdown = re.sub(r"<!-- notebook (\S+) -->", lambda found: cells(ROOT / found[1]), markdown)
    grouped = [name for names in GROUP.findall(markdown) for name in names[1].split(", ")]
    markdown = GROUP.sub(lambda found: reference(found[1], found[2].split(", "), level=3), markdown)
    markdown = re.sub(r"<!-- names of ([\w.]+) -->", lambda found: reference(found[1], names_of(found[1])), markdown)
    return OTHERS.sub(
        lambda found: reference(found[1], [name for name in names_of(found[1]) if name not in grouped], level=3),
        markdown,
    )


def cells(notebook: Path) -> str:
    """Return the cells of a notebook as Markdown."""
    found = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(notebook.read_text())["cells"]]
    return "\n\n".join(f"```python\n{text}\n```" if kind == "code" else text for kind, text in found)


def reference(package: str, names: list[str], level: int = 2) -> str:
    """Return the directives of mkdocstrings for names of a package, each with the anchor "package.name"."""
    module = importlib.import_module(package)
    found = []
    for name in names:
        value = getattr(module, name)
        if isinstance(value, ModuleType) or (package != "covpool" and name in covpool.__all__):
            found.append(_elsewhere(package, name, value, level))
            continue
        home = getattr(value, "__module__", None) or package
        path = f"{home}.{name}" if home.startswith("covpool") else f"{package}.{name}"
        options = f"    options:\n      heading_level: {level}"
        found.append(f'<span id="{package}.{name}"></span>\n\n::: {path}\n{options}')
    return "\n\n".join(found)


def names_of(package: str) -> list[str]:
    """Return the names of a package: functions, then classes, then modules and constants."""
    module = importlib.import_module(package)

    def rank(name: str) -> int:
        value = getattr(module, name)
        return 0 if inspect.isroutine(value) else 1 if inspect.isclass(value) else 2

    return sorted(exported(module), key=rank)


def _elsewhere(package: str, name: str, value: Any, level: int) -> str:
    """Return a heading for a module, or for a name that the page of covpool describes."""
    what = (
        inspect.getdoc(value) if isinstance(value, ModuleType) else f"See [covpool.{name}](covpool.md#covpool.{name})."
    )
    page = f" [Its names]({name}.md)." if package == "covpool" else ""
    return f'{"#" * level} {name} {{ id="{package}.{name}" }}\n\n{what}{page}'


def exported(module: ModuleType) -> list[str]:
    """Return the names that a package imports under their own name, `from x import a as a`, in its order."""
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom)]
    return [alias.name for node in imports for alias in node.names if alias.asname == alias.name]


def on_page_content(content: str, **_: Any) -> str:
    """Replace the LaTeX that pymdownx.arithmatex has marked, and let wide tables and figures scroll."""
    content = re.sub(r"<table>.*?</table>", _table, content, flags=re.DOTALL)
    content = re.sub(r"<p>(?=<img [^>]*></p>)", '<p class="figure">', content)
    return MATHS.sub(lambda found: mathml(html.unescape(found[2]), display=found[1] == "div"), content)


def _table(found: re.Match[str]) -> str:
    """Put a table into a box of its own, and mark numbers such as 6.0e-4, which browsers break after the hyphen."""
    marked = re.sub(r"(?<![\w.])[\d.]+e-\d+", r'<span class="number">\g<0></span>', found[0])
    return f'<div class="table">{marked}</div>'


def mathml(latex: str, *, display: bool) -> str:
    """Return a formula as MathML.

    Args:
        latex: The formula, without dollar signs.
        display: Whether it stands on a line of its own.
    """
    found = convert(latex.strip(), display="block" if display else "inline")
    found = SPELLED.sub(lambda name: f"<mo>{re.sub('<[^>]*>', '', name[1])}</mo>", found)
    found = UPRIGHT.sub(r'<mi mathvariant="normal">\1</mi>', found)
    return NAME.sub(_spaced, found)


def _spaced(name: re.Match[str]) -> str:
    """Set the name of a function as TeX does: a thin space on each side, but none before a bracket."""
    after = "0" if name[3] else "0.167em"
    return f'<mo{name[1]} lspace="0.167em" rspace="{after}">{name[2]}</mo>{name[3] or ""}'
