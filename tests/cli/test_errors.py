"""Mistakes end in one line, bugs in a traceback."""

from collections.abc import Callable

import pytest
import torch
import typer
from typer.testing import CliRunner, Result

import covpool
from covpool.cli._errors import readable_errors


def run(command: Callable[[], None]) -> Result:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(readable_errors(command))
    return CliRunner().invoke(app, [])


def mistake() -> None:
    covpool.create_pool("isqt", 16)


def no_file() -> None:
    open("/nowhere/at/all")  # noqa: SIM115


def fault() -> None:
    int("not raised by covpool")


def stopped() -> None:
    raise KeyboardInterrupt


def left() -> None:
    raise typer.Exit(3)


def no_memory() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB. More text.")


def too_large() -> None:
    torch.empty(2**50)


def beyond_any_memory() -> None:
    torch.empty(2**62, 2**62)


def no_memory_left() -> None:
    raise MemoryError


def escapes() -> None:
    raise covpool.CovpoolError("there is no class cat\x1b[2J\x1b]0;owned\x07")


def not_utf8() -> None:
    "caf\udce9".encode()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (not_utf8, r"must be UTF-8 text; got 'caf\udce9': rename it"),
        (too_large, "covpool: this does not fit into memory ("),
        (beyond_any_memory, "covpool: this does not fit into memory ("),
        (no_memory_left, "covpool: this does not fit into memory (MemoryError): use smaller sizes"),
        (escapes, r"there is no class cat\x1b[2J\x1b]0;owned\x07"),
        (mistake, "did you mean 'isqrt'"),
        (no_file, "/nowhere/at/all"),
        (no_memory, "the GPU is out of memory (CUDA out of memory): use smaller batches"),
    ],
)
def test_mistakes_are_one_line(command: Callable[[], None], said: str) -> None:
    result = run(command)
    assert result.exit_code == 2 and said in result.stderr and result.stderr.count("\n") == 1


def test_a_bug_keeps_its_traceback() -> None:
    assert isinstance(run(fault).exception, ValueError)


def test_the_environment_can_ask_for_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVPOOL_TRACEBACK", "1")
    assert isinstance(run(mistake).exception, ValueError)


def test_ctrl_c() -> None:
    result = run(stopped)
    assert result.exit_code == 130 and result.stderr == "stopped\n"


def test_exit_codes_of_commands_are_kept() -> None:
    assert run(left).exit_code == 3
