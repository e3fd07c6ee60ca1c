"""The files of versions agree with the requirements."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def versions(name: str) -> dict[str, str]:
    lines = (ROOT / "constraints" / name).read_text().splitlines()
    return {package.lower(): version for package, _, version in (line.partition("==") for line in lines) if version}


def floors() -> dict[str, str]:
    """The lowest version of every requirement of users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *(text for extra in extras if extra not in ("docs", "dev") for text in extras[extra]),
    ]
    found = [re.fullmatch(r"([\w-]+)>=([\d.]+)", text) for text in wanted if not text.startswith("covpool")]
    assert all(found)
    return {match[1].lower(): match[2] for match in found if match}


def numbers(version: str) -> list[int]:
    found = [int(number) for number in version.split("+")[0].split(".") if number.isdigit()]
    return [*found, 0, 0][:3]


def test_the_lowest_versions_are_those_of_the_requirements() -> None:
    lowest = versions("lowest.txt")
    assert {name: numbers(lowest[name]) for name in floors()} == {name: numbers(v) for name, v in floors().items()}


def test_the_tested_versions_are_allowed() -> None:
    tested = versions("tested.txt")
    missing = floors().keys() - tested.keys()
    assert missing <= {"pyarrow"}
    assert all(numbers(tested[name]) >= numbers(floor) for name, floor in floors().items() if name in tested)
