"""The example of CONTRIBUTING.md is a complete pool: it is registered, keeps the contract, and passes lint and mypy."""

import itertools
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import covpool
from pools import test_contract as contract

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^ *```(python|markdown)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SOURCE, TEST, PAGE = (textwrap.dedent(code) for _, code in FENCE.findall((ROOT / "CONTRIBUTING.md").read_text()))


def contract_cases() -> Iterator[object]:
    """Every test of the contract with every combination of its parameters."""
    for key, function in vars(contract).items():
        if key.startswith("test_"):
            marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
            for i, values in enumerate(itertools.product(*(mark.args[1] for mark in marks))):
                arguments = dict(zip((mark.args[0] for mark in marks), values, strict=True))
                yield pytest.param(function, arguments, id=f"{key}-{i}")


@pytest.fixture
def variance() -> Iterator[dict[str, object]]:
    namespace: dict[str, object] = {"__name__": "contributing"}
    exec(SOURCE, namespace)
    sys.modules["contributing"] = type(sys)("contributing")  # pickle looks the class up there
    vars(sys.modules["contributing"]).update(namespace)
    yield namespace
    covpool.unregister("variance")
    del sys.modules["contributing"]


@pytest.mark.usefixtures("variance")
@pytest.mark.parametrize(("check", "arguments"), list(contract_cases()))
def test_the_example_keeps_the_contract_of_pools(check: object, arguments: dict[str, object]) -> None:
    check("variance", **arguments)


@pytest.mark.usefixtures("variance")
def test_the_test_of_the_example_passes() -> None:
    namespace: dict[str, object] = {}
    exec(TEST, namespace)
    namespace["test_variance_equals_numpy"]()


def test_the_example_is_short() -> None:
    assert sum(text.count("\n") for text in (SOURCE, TEST, PAGE)) <= 60


def test_the_example_passes_lint_and_mypy(tmp_path: Path) -> None:
    for tool in ("ruff", "mypy"):
        pytest.importorskip(tool, reason="the linters are in the extra dev")
    for path, text in (("src/variance.py", SOURCE), ("tests/test_variance.py", TEST)):
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_text(text)
    configuration = f"--config={ROOT / 'pyproject.toml'}"
    for command in (
        ("ruff", "check", configuration, "--no-cache", tmp_path),
        ("ruff", "format", "--check", configuration, "--no-cache", tmp_path),
        ("mypy", f"--config-file={ROOT / 'pyproject.toml'}", tmp_path / "src" / "variance.py"),
    ):
        result = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
