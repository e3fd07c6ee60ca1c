"""Users' mistakes end in one readable line: no traceback, no hang, nothing written.

The tables are command_lines.txt, recipes.txt and checkpoints.py. `make test` runs a sample of them.
"""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import safetensors
import safetensors.torch
from typer.testing import Result

from cli.runner import run
from malformed.checkpoints import TEXTS, tampered
from malformed.world import arguments, command_lines, make_world

pytestmark = pytest.mark.filterwarnings("ignore")  # as on the command line, a warning is not an error

SAMPLE = 40  # of every so many rows, one is in `make test`
SECONDS = 120  # that a row may take
RECIPES = Path(__file__).with_name("recipes.txt").read_text().split("---\n")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    made = make_world(tmp_path_factory.mktemp("world"))
    options = ("--model", made["checkpoint"], "--out", made["vectors"], "--device", "cpu", "--workers", "0")
    assert run("embed", made["tree"], *options).exit_code == 0
    return made


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Work in an empty folder, without tracebacks, and stop a row that hangs."""

    def stop(*_: object) -> NoReturn:
        pytest.fail(f"it took more than {SECONDS} s")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("COVPOOL_TRACEBACK", raising=False)
    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def rows(values: list[Any]) -> list[Any]:
    """The rows of a table as parameters; all but a sample are marked long."""
    return [
        pytest.param(value, marks=() if i % SAMPLE == 0 else pytest.mark.long, id=f"{i}: {str(value)[:60]!a}")
        for i, value in enumerate(values)
    ]


def check(result: Result) -> None:
    """Refused in readable lines, without a traceback and without terminal escapes."""
    assert result.exit_code == 2, (result.exit_code, result.output[-500:], result.exception)
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.strip() and "Traceback" not in result.output and "\x1b" not in result.output


@pytest.mark.parametrize("line", rows(command_lines()))
def test_command_lines(line: str, world: dict[str, str], tmp_path: Path) -> None:
    check(run(*arguments(line, world, tmp_path / "out")))


@pytest.mark.parametrize("text", rows([*RECIPES, "a = " + "[" * 50_000, "a." * 2_000 + "a = 1", "a = {b = " * 9_000]))
def test_recipes(text: str, world: dict[str, str]) -> None:
    Path("self.toml").write_text(text)
    check(run("train", "self.toml", "data.root=" + world["tree"], "--out", "out"))
    assert not Path("out").exists()


@pytest.mark.parametrize("change", rows(tampered()))
def test_checkpoints(change: tuple[str, Any], world: dict[str, str]) -> None:
    path = Path(world["checkpoint"])
    with safetensors.safe_open(path, "pt") as file:
        description = json.loads(file.metadata()["covpool"])
    *above, last = change[0].split(".")
    table = description
    for key in above:
        table[key] = table[key] or ({"name": "folder"} if key == "data" else {})
        table = table[key]
    table[last] = change[1]
    metadata = {"covpool": json.dumps(description)}
    safetensors.torch.save_file(safetensors.torch.load_file(path), "a.safetensors", metadata)
    result = run("predict", "a.safetensors", world["image"], "--device", "cpu", "--json")
    if result.exit_code == 0:  # the value is one that the field takes: the prediction is whole
        assert sum(one["probability"] for one in json.loads(result.stdout)["classes"]) == pytest.approx(1)
    else:
        check(result)


@pytest.mark.parametrize("text", rows(list(TEXTS)))
def test_descriptions(text: str, world: dict[str, str]) -> None:
    tensors = safetensors.torch.load_file(world["checkpoint"])
    safetensors.torch.save_file(tensors, "a.safetensors", {"covpool": text})
    check(run("predict", "a.safetensors", world["image"], "--device", "cpu"))


@pytest.mark.parametrize("position", rows([0, 1, 7, 8, 9, 20, 100, 400, 1000, 2000, -1, -8, -1000]))
def test_truncated_and_changed_checkpoints(position: int, world: dict[str, str]) -> None:
    whole = Path(world["checkpoint"]).read_bytes()
    Path("a.safetensors").write_bytes(whole[:position])
    check(run("predict", "a.safetensors", world["image"], "--device", "cpu"))
    header = int.from_bytes(whole[:8], "little")
    at = position % (8 + header)
    Path("a.safetensors").write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
    check(run("predict", "a.safetensors", world["image"], "--device", "cpu"))


def test_the_table_has_at_least_300_rows() -> None:
    lines = command_lines()
    assert len(lines) >= 300 and len(set(lines)) == len(lines)
