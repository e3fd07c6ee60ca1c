"""Run the command line inside the test process."""

from typer.testing import CliRunner, Result

from covpool.cli.app import app


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments: object) -> str:
    """The line that a mistake ends in."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("covpool: ")
    return result.stderr
