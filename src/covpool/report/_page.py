"""Rendering a self-contained HTML page from a template."""

from pathlib import Path
from typing import Any

from covpool._check import require
from covpool.report._facts import duration, number, percent


def render_page(template: Path, values: dict[str, Any]) -> str:
    """Render a Jinja template. It may include the files beside it and those of this package, such as style.css.

    Args:
        template: the template's path.
        values: what it names; an unknown name is an error.
    """
    jinja2 = require("jinja2", "train")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, Path(__file__).parent]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "duration": duration, "number": number}
    page: str = environment.get_template(template.name).render(values)
    return page
