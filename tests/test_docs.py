"""Listings of the pools in the documentation agree with the registry."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import covpool

ROOT = Path(__file__).parents[1]


def load(name: str) -> ModuleType:
    """A hook of mkdocs as a module."""
    specification = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_navigation_lists_the_page_of_every_pool() -> None:
    pytest.importorskip("latex2mathml", reason="the hooks need the extra docs")
    config = load("hooks").on_config({"docs_dir": str(ROOT / "docs"), "nav": [{"Pools": []}]})
    assert config["nav"] == [{"Pools": [{name: f"methods/{name}.md"} for name in sorted(covpool.list_pools())]}]
    text = (ROOT / "mkdocs.yml").read_text()
    assert "- docs/hooks.py" in text and "methods/" not in text


@pytest.mark.parametrize("name", covpool.list_pools())
def test_the_page_of_a_pool_begins_with_its_name(name: str) -> None:
    assert (ROOT / "docs" / "methods" / f"{name}.md").read_text().startswith(f"# {name}: ")


@pytest.mark.parametrize("name", covpool.list_pools())
def test_the_page_of_a_pool_has_a_formula_advice_and_its_paper(name: str) -> None:
    text = (ROOT / "docs" / "methods" / f"{name}.md").read_text()
    before, _, paper = text.partition("\n## Paper\n")
    assert "$$" in before and "**When to use it.** " in before
    assert re.search(r"\]\(https://(arxiv\.org|openaccess\.thecvf\.com|openreview\.net)/", paper)
    assert re.search(r"^(```|~~~)bibtex\n@", paper, re.MULTILINE) and paper.count("{") == paper.count("}")
    assert f"{re.findall(r'[0-9]{4}', covpool.pool_info(name).paper)[0]}" in paper


@pytest.mark.parametrize("name", covpool.list_pools())
def test_every_option_of_a_pool_is_on_its_page(name: str) -> None:
    text = (ROOT / "docs" / "methods" / f"{name}.md").read_text()
    missing = {option for option in covpool.pool_info(name).options if f"`{option}" not in text}
    assert not missing


def test_the_readme_names_only_pools_that_exist() -> None:
    table = (ROOT / "README.md").read_text().partition("| | names |")[2].partition("| inside the backbone |")[0]
    named = set(re.findall(r"`([a-z_0-9]+)`", table)) - {"shrinkage"}
    assert {"avg", "cov", "mpn", "isqrt"} <= named <= set(covpool.list_pools())


def test_the_numbers_of_the_decision_table_are_those_of_the_records() -> None:
    text = (ROOT / "docs" / "choosing.md").read_text()
    facts = load("pool_pages")
    birds, textures = facts.CUB[320], "probe_dtd10.jsonl"
    for record, pool, what in (
        (birds, "isqrt", "{top1} % against {avg} % with average pooling ({low} to {high} points)"),
        (birds, "mpn", "{top1} % at 320 px"),
        (facts.CUB[224], "cbp", "`cbp` gains {low} to {high} points"),
        (facts.CUB[224], "isqrt", "`isqrt` {top1} %, `cov` {cov} %"),
        (textures, "gaussian", "`gaussian` gains {low} to {high} points"),
        (textures, "isqrt", "`isqrt` {low} to {high}"),
    ):
        rows = facts.summaries(record)
        low, high = (f"{100 * end:+.1f}" for end in rows[pool].to_reference)
        percent = {name: f"{100 * rows[name].top1:.1f}" for name in ("avg", "cov", pool)}
        expected = what.format(top1=percent[pool], avg=percent["avg"], cov=percent["cov"], low=low, high=high)
        assert expected in text or expected.replace("gains +", "gains ").replace(" to +", " to ") in text, expected
    for pool, ms in re.findall(r"^\| `(\w+)` \| ([\d.]+) \| \d+ \|$", text, re.MULTILINE):
        assert float(f"{facts.device_times()[pool]:.2g}") == float(ms)
