"""`covpool --plugin MODULE`: pools of users by name."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import covpool
from cli.runner import refused, run
from covpool.recipe import to_toml
from tiny import make_tree, tiny_recipe

PLUGIN = """
import covpool

@covpool.register("{name}", title="Half average", paper="", order="1", formula="x / 2", size="c", cost="n c")
class HalfAverage(covpool.Pool):
    def _pool(self, x):
        return x.mean(1) / 2
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that registers the pool "half_avg"."""
    (tmp_path / "my_pools.py").write_text(PLUGIN.format(name="half_avg"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_pools", raising=False)
    yield "my_pools"
    if "half_avg" in covpool.list_pools():
        covpool.unregister("half_avg")


def test_a_pool_of_a_plugin_is_known_by_name(plugin: str) -> None:
    assert "half_avg" in refused("show", "half_avg")
    assert "Half average" in run("--plugin", plugin, "show", "half_avg").output


def test_a_pool_of_a_plugin_is_trained_and_used(plugin: str, tmp_path: Path) -> None:
    recipe, tree = tmp_path / "tiny.toml", make_tree(tmp_path / "tree")
    recipe.write_text(to_toml(tiny_recipe(tree, train={"epochs": 1})))
    folder = tmp_path / "run"
    settings = ("pool.name=half_avg", "pool.reduce_to=8")
    trained = run("--plugin", plugin, "train", recipe, *settings, "--out", folder, "--no-report")
    assert trained.exit_code == 0, trained.output
    checkpoint = folder / "best.safetensors"
    image = next((tree / "test").rglob("*.png"))
    assert run("--plugin", plugin, "predict", checkpoint, image, "--device", "cpu").exit_code == 0
    covpool.unregister("half_avg")
    assert "half_avg" in refused("predict", checkpoint, image, "--device", "cpu")


def test_a_missing_plugin_is_one_line() -> None:
    assert "no_such_module" in refused("--plugin", "no_such_module", "list")
