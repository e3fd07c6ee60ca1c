"""Rendering a self-contained HTML page from a template."""

from pathlib import Path
from typing import Any

from covpool._errors import require
from covpool.report._facts import duration, number, percent


def render_page(template: Path, values: dict[str, Any]) -> str:
    """Render a Jinja template. It may include files from its own folder and from this package, such as style.css.

    Args:
        template: Path of the template.
        values: Values of the names in the template; a name without a value is an error.
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
    return environment.get_template(template.name).render(values)
