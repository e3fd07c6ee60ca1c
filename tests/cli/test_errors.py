"""Mistakes end in a line, faults in a traceback, Ctrl-C in a word."""

from collections.abc import Callable

import pytest
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


@pytest.mark.parametrize(("command", "said"), [(mistake, "did you mean 'isqrt'"), (no_file, "/nowhere/at/all")])
def test_mistakes_are_one_line(command: Callable[[], None], said: str) -> None:
    result = run(command)
    assert result.exit_code == 2 and said in result.stderr and result.stderr.count("\n") == 1


def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    assert isinstance(run(fault).exception, ValueError)


def test_a_traceback_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COVPOOL_TRACEBACK", "1")
    assert isinstance(run(mistake).exception, ValueError)


def test_stopped_by_the_user() -> None:
    result = run(stopped)
    assert result.exit_code == 130 and result.stderr == "stopped\n"


def test_exit_codes_of_commands_stay() -> None:
    assert run(left).exit_code == 3
