"""Rules that the source itself must follow: layers, one name everywhere, a test file for every module."""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import covpool
from layers import ORDER, ROOT, SOURCE, breaches, layer, private_imports

FILES = sorted(SOURCE.rglob("*.py"))
MIRRORED = [p for p in FILES if layer(p) in ("ops", "kernels", "blocks", "models") and p.name != "__init__.py"]
HEAVY = ("timm", "torchvision", "triton", "typer", "sklearn", "matplotlib")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_file_keeps_to_its_layer(path: Path) -> None:
    assert layer(path) in ORDER, f"{path.name}: give {layer(path)!r} its place in the design and in tests/layers.py"
    assert breaches(path, path.read_text()) == []
    assert private_imports(path, path.read_text()) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("pools/x.py", "from covpool.ops._backend import exporting"),
        ("pools/x.py", "from covpool.ops import _backend"),
        ("cli/x.py", "from covpool.ops.precision import full_precision"),
        ("cli/x.py", "from covpool.kernels import gpu"),
        ("cli/x.py", "import covpool.kernels.gpu"),
        ("bench/x.py", "from covpool.engine.training._loop import train"),
    ],
)
def test_imports_of_what_a_package_keeps_to_itself_are_found(place: str, text: str) -> None:
    assert private_imports(SOURCE / place, text) != []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("pools/x.py", "from covpool.ops.positions import center"),
        ("ops/x.py", "from covpool.ops._backend import exporting\nfrom covpool.ops import _spectral"),
        ("cli/x.py", "import covpool\nfrom covpool.ops import in_autocast\nfrom covpool._errors import require"),
        ("cli/x.py", "from covpool.engine import training\nimport covpool.engine.training"),
    ],
)
def test_imports_of_what_a_package_exports_are_allowed(place: str, text: str) -> None:
    assert private_imports(SOURCE / place, text) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("ops/x.py", "from covpool.pools import Pool"),
        ("ops/x.py", "from covpool import pools"),
        ("ops/x.py", "from ..pools import Pool"),
        ("ops/x.py", "def f():\n    import covpool"),
        ("_errors.py", "from covpool._registry import register"),
        ("pools/x.py", "import numpy"),
        ("pools/x.py", "from covpool._errors import require\nrequire('timm', 'models')"),
        ("ops/x.py", "import triton.language as tl"),
        ("engine/x.py", "from ctypes import cdll"),
        ("ops/x.py", "import torch\n@torch.library.custom_op('a::b', mutates_args=())\ndef f(): ..."),
        ("ops/x.py", "from torch.library import custom_op\n@custom_op('a::b', mutates_args=())\ndef f(): ..."),
        ("pools/x.py", "import torch\nclass F(torch.autograd.Function): ..."),
        ("pools/x.py", "from torch.autograd import Function as F\nclass G(F): ..."),
        ("ops/x.py", "from torch import nn\nclass M(nn.Module): ..."),
        ("ops/x.py", "from torch.nn import Sequential\nclass M(Sequential): ..."),
        ("io/x.py", "from covpool.pools import Pool\nclass M(Pool): ..."),
        ("pools/x.py", "print(1)"),
        ("models/x.py", "with open('f') as f: ..."),
        ("kernels/x.py", "from os import environ\nenviron['A']"),
        ("models/x.py", "from pathlib import Path\nPath('f').write_text('')"),
    ],
)
def test_the_check_itself_finds_what_it_looks_for(place: str, text: str) -> None:
    assert breaches(SOURCE / place, text) != []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("_registry.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from covpool.pools import Pool"),
        ("kernels/x.py", "import triton\nimport torch\ntorch.library.custom_op"),
        ("pools/x.py", "from covpool.blocks import FactorizedBilinear\nfrom covpool.pools.base import Pool"),
        ("cli/x.py", "import os\nimport typer\nimport covpool\nprint(os.environ)"),
    ],
)
def test_the_check_allows_what_the_design_allows(place: str, text: str) -> None:
    assert breaches(SOURCE / place, text) == []


@pytest.mark.parametrize("path", MIRRORED, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_has_its_mirror_in_tests(path: Path) -> None:
    inside = path.relative_to(SOURCE)
    mirror = ROOT / "tests" / inside.parent / f"test_{path.stem.lstrip('_')}.py"
    assert mirror.exists(), f"src/covpool/{inside} needs {mirror.relative_to(ROOT)}"


@pytest.mark.parametrize("name", covpool.list_pools())
def test_one_name_everywhere(name: str) -> None:
    places = (f"src/covpool/pools/{name}.py", f"tests/pools/test_{name}.py", f"docs/methods/{name}.md")
    assert [place for place in places if not (ROOT / place).exists()] == []


def test_a_class_has_a_name_of_its_own() -> None:
    found = Counter(name for path in FILES for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE))
    assert [name for name, count in found.items() if count > 1] == ["Pool"]  # a module, and its table in a recipe


def test_importing_covpool_brings_torch_alone() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); import covpool; "
        f"print(*sorted({{m.split('.')[0] for m in set(sys.modules) - before}} & set({HEAVY!r})))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
