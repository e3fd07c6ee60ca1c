import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from torch import Tensor

import covpool
from covpool import _registry
from covpool.models import rebuild
from covpool.pools import load_plugins, without_plugins

ABOUT = {"title": "Twice", "paper": "", "order": "1", "formula": "2 mean x", "size": "c", "cost": "n c"}


class Twice(covpool.Pool):
    """Twice the mean: a user's own pool."""

    factor: float = 2.0

    def _pool(self, x: Tensor) -> Tensor:
        return self.factor * x.mean(1)


@pytest.fixture
def twice() -> object:
    covpool.register("twice", **ABOUT)(Twice)
    yield
    covpool.unregister("twice")


def test_the_papers_pools_are_there() -> None:
    assert {"avg", "max", "gem", "cov", "mpn", "isqrt", "gaussian"} <= set(covpool.list_pools())


@pytest.mark.parametrize("name", covpool.list_pools())
def test_every_pool_is_described(name: str) -> None:
    info = covpool.pool_info(name)
    assert info.name == name
    assert all((info.title, info.paper, info.order, info.formula, info.size, info.cost))
    pool = covpool.create_pool(name, 16)
    assert type(pool).__doc__ and type(pool).__module__ == f"covpool.pools.{name}"
    if "," not in info.size:  # a formula in c alone
        formula = info.size.replace(" (", " * (").replace(")(", ") * (").replace("^", "**")
        assert pool.out_features == eval(formula, {"c": 16})


@pytest.mark.usefixtures("twice")
def test_a_users_own_pool_is_created_listed_and_described() -> None:
    assert "twice" in covpool.list_pools()
    assert covpool.pool_info("twice").options == {"factor": 2.0}
    pool = covpool.create_pool("twice", 4, factor=3.0, reduce_to=2)
    assert isinstance(pool, Twice) and pool.out_features == 2
    torch.testing.assert_close(covpool.create_pool("twice", 4)(torch.ones(1, 4, 2, 2)), torch.full((1, 4), 2.0))


@pytest.mark.usefixtures("twice")
def test_a_name_belongs_to_one_class_which_may_be_registered_again() -> None:
    assert covpool.register("twice", **ABOUT)(Twice) is Twice
    with pytest.raises(ValueError, match="'twice' is already registered, as Twice: choose another name"):
        covpool.register("twice", **ABOUT)(covpool.pools.AveragePool)


def test_unregister_takes_it_out_again() -> None:
    covpool.register("twice", **ABOUT)(Twice)
    covpool.unregister("twice")
    assert "twice" not in covpool.list_pools()


@pytest.mark.parametrize("use", [lambda n: covpool.create_pool(n, 4), covpool.pool_info, covpool.unregister])
def test_an_unknown_name_is_refused_with_the_nearest_name(use: object) -> None:
    with pytest.raises(
        ValueError, match=r"unknown pool 'isqrtt' \(did you mean 'isqrt'\?\); the pools are .*avg.*--plugin MODULE"
    ):
        use("isqrtt")


@pytest.mark.parametrize("option", ["iteration", "pooled_size"])
def test_an_unknown_option_is_refused_with_the_valid_ones(option: str) -> None:
    with pytest.raises(TypeError, match=rf"pool 'isqrt' has no option '{option}'.*takes iterations, .*reduce_to"):
        covpool.create_pool("isqrt", 4, **{option: 5})


def test_classes_are_attributes_of_the_package() -> None:
    for name in covpool.list_pools():
        cls = type(covpool.create_pool(name, 16))
        assert getattr(covpool.pools, cls.__name__) is cls
    with pytest.raises(AttributeError, match=r"'covpool\.pools' has no attribute 'NoSuchPool'"):
        covpool.pools.NoSuchPool  # noqa: B018


PLUGIN = """
import covpool

@covpool.register("{name}", title="", paper="", order="1", formula="", size="c", cost="n c")
class Third(covpool.Pool):
    def _pool(self, x):
        return x.mean(1) / 3
"""


def write_plugin(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    """Write a module with its own name and make it importable."""
    module = f"plugin_{folder.name}"
    (folder / f"{module}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    return module


def install(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Pretend that an installed package has an entry point for the module."""
    entry = EntryPoint("mine", module, _registry.ENTRY_POINTS)
    monkeypatch.setattr(_registry, "entry_points", lambda group: [entry])
    _registry._load_entry_points.cache_clear()


@pytest.fixture
def forget_plugins() -> object:
    before = dict(_registry._POOLS)
    yield
    _registry._POOLS.clear()
    _registry._POOLS.update(before)
    _registry._load_entry_points.cache_clear()


@pytest.mark.usefixtures("forget_plugins")
def test_a_plugin_named_by_the_user_registers_its_pools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = write_plugin(tmp_path, monkeypatch, PLUGIN.format(name="third"))
    load_plugins([module])
    load_plugins([module])
    assert covpool.create_pool("third", 4)(torch.ones(1, 4, 2, 2)).tolist() == [pytest.approx([1 / 3] * 4)]


@pytest.mark.usefixtures("forget_plugins")
@pytest.mark.parametrize("use", [lambda: covpool.create_pool("fourth", 4), covpool.list_pools])
def test_an_installed_plugin_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: object) -> None:
    install(monkeypatch, write_plugin(tmp_path, monkeypatch, PLUGIN.format(name="fourth")))
    assert "fourth" not in _registry._POOLS
    use()
    assert "fourth" in covpool.list_pools()


@pytest.mark.usefixtures("forget_plugins")
def test_no_installed_plugin_is_imported_where_that_is_forbidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, write_plugin(tmp_path, monkeypatch, "raise RuntimeError('imported')"))
    with without_plugins(), pytest.raises(ValueError, match="import its module or pass `--plugin MODULE`"):
        covpool.create_pool("fifth", 4)
    with without_plugins():
        assert "isqrt" in covpool.list_pools()


@pytest.mark.usefixtures("forget_plugins")
def test_rebuilding_a_network_imports_no_installed_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, write_plugin(tmp_path, monkeypatch, PLUGIN.format(name="sixth")))
    with torch.device("meta"):
        architecture = covpool.attach("torchvision/resnet18", "avg", num_classes=2).architecture
        with pytest.raises(covpool.CovpoolError, match=r"unknown pool 'sixth'.*--plugin MODULE"):
            rebuild(replace(architecture, pool="sixth"))
        assert "sixth" in covpool.list_pools(), "the plugin itself works"
        rebuild(replace(architecture, pool="sixth"))


@pytest.mark.usefixtures("forget_plugins")
def test_a_broken_plugin_gives_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(covpool.CovpoolError, match=r"plugin 'no_such_module' must import.*got ModuleNotFoundError"):
        load_plugins(["no_such_module"])
    module = write_plugin(tmp_path, monkeypatch, "1 / 0")
    install(monkeypatch, module)
    for _ in range(2):
        with pytest.raises(covpool.CovpoolError, match=rf"plugin '{module}' \(installed entry point 'mine'\).*ZeroDiv"):
            covpool.list_pools()
    assert covpool.create_pool("isqrt", 4), "a pool that is registered does not need the plugins"


def test_a_pool_in_a_file_of_the_package_needs_no_list() -> None:
    files = {path.stem for path in Path(covpool.pools.__file__).parent.glob("[!_]*.py")}
    assert files - {"base"} == set(covpool.list_pools())


def test_importing_the_pools_reads_no_entry_points() -> None:
    code = (
        "import covpool.pools; from covpool import _registry; print(_registry._load_entry_points.cache_info().misses)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["0"]
