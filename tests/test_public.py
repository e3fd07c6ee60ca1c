"""The public names of the package."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import covpool

PACKAGE = Path(covpool.__file__).parent
ROOT = Path(__file__).parents[1]


def names_for_type_checkers() -> list[str]:
    """The names that the TYPE_CHECKING block of covpool/__init__.py imports."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    return [
        alias.asname or alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    ]


def test_type_checkers_see_the_same_names() -> None:
    assert sorted(names_for_type_checkers()) == covpool.__all__ == dir(covpool)


@pytest.mark.parametrize("name", covpool.__all__)
def test_every_name_exists(name: str) -> None:
    assert getattr(covpool, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'covpool' has no attribute 'lenet'"):
        _ = covpool.lenet


def test_importing_covpool_does_not_import_torch() -> None:
    code = "import sys, covpool; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_the_wheel_is_typed_and_has_the_version_of_the_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert (PACKAGE / "py.typed").is_file()
    hatch = settings["tool"]["hatch"]
    assert hatch["build"]["targets"]["wheel"]["packages"] == ["src/covpool"]
    assert settings["project"]["dynamic"] == ["version"] and hatch["version"]["path"] == "src/covpool/__init__.py"
