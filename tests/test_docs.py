"""Listings of the pools in the documentation agree with the registry."""

import importlib.util
import re
from pathlib import Path

import pytest

import covpool

ROOT = Path(__file__).parents[1]


def test_the_navigation_lists_the_page_of_every_pool() -> None:
    specification = importlib.util.spec_from_file_location("hooks", ROOT / "docs" / "hooks.py")
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    config = hooks.on_config({"docs_dir": str(ROOT / "docs"), "nav": [{"Pools": []}]})
    assert config["nav"] == [{"Pools": [{name: f"methods/{name}.md"} for name in sorted(covpool.list_pools())]}]
    text = (ROOT / "mkdocs.yml").read_text()
    assert "- docs/hooks.py" in text and "methods/" not in text


@pytest.mark.parametrize("name", covpool.list_pools())
def test_the_page_of_a_pool_begins_with_its_name(name: str) -> None:
    assert (ROOT / "docs" / "methods" / f"{name}.md").read_text().startswith(f"# {name}: ")


def test_the_readme_names_only_pools_that_exist() -> None:
    table = (ROOT / "README.md").read_text().partition("| | names |")[2].partition("| inside the backbone |")[0]
    named = set(re.findall(r"`([a-z_0-9]+)`", table)) - {"shrinkage"}
    assert {"avg", "cov", "mpn", "isqrt"} <= named <= set(covpool.list_pools())
