"""Extension of griffe, which reads the docstrings for the reference: turn their plain text into Markdown."""

import re
import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))  # the module is loaded by its path
from formulas import with_latex

LABELS = r"^(Formula|Reference|Size|Cost|Shape): (.+?)(?=\n\n|\n[A-Z]\w+: |\Z)"
EXAMPLE = r"^>>> .*?(?=\n\n|\Z)"
SHARED = r"^    (\w+(?:, \w+)+): (.*(?:\n {8}.*)*)"  # one text for several arguments
CODE = r"```.*?```|`[^`]*`"


class TerminalDocstrings(griffe.Extension):
    """Rewrite every docstring as `to_markdown` says."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)


def to_markdown(text: str) -> str:
    """Return a docstring as Markdown.

    Examples are fenced, formulas of blocks are code on a line of their own, arguments that share a text are listed one
    by one, formulas in the text become LaTeX, and inner products such as <x, y> are not read as tags.

    >>> print(to_markdown("Pool.\\n\\nFormula: z = <x, y>\\nSize: c\\n\\n>>> 1 + 1\\n2"))
    Pool.
    <BLANKLINE>
    **Formula:** `z = <x, y>`
    <BLANKLINE>
    **Size:** `c`
    <BLANKLINE>
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    text = re.sub(EXAMPLE, r"```pycon\n\g<0>\n```", text, flags=re.M | re.S)
    text = re.sub(LABELS, _paragraph, text, flags=re.M | re.S)
    text = re.sub(
        SHARED, lambda found: "\n".join(f"    {name}: {found[2]}" for name in found[1].split(", ")), text, flags=re.M
    )
    parts = re.split(f"({CODE})", text, flags=re.S)
    return "".join(part if index % 2 else _escape(with_latex(part)) for index, part in enumerate(parts))


def _escape(text: str) -> str:
    return re.sub(r"<(?=[A-Za-z])", "&lt;", text)


def _paragraph(found: re.Match[str]) -> str:
    label, text = found[1], " ".join(found[2].split())
    code = label in ("Formula", "Size", "Cost") and "`" not in text
    return f"**{label}:** `{text}`\n" if code else f"**{label}:** {text}\n"
