"""Hook of mkdocs: adds the page of every pooling method to the navigation."""

from pathlib import Path
from typing import Any


def on_config(config: Any) -> Any:
    """Append a section with all pages of docs/methods."""
    pages = sorted((Path(config["docs_dir"]) / "methods").glob("*.md"))
    config["nav"].append({"Methods": [{page.stem: f"methods/{page.name}"} for page in pages]})
    return config
