"""The help of a command comes from its docstring."""

from pathlib import Path
from typing import Annotated

import typer
from typer.testing import CliRunner

from covpool.cli._errors import readable_errors
from covpool.cli._help import with_help


def command(
    images: list[Path],
    *,
    top: Annotated[int, typer.Option(min=1)] = 5,
    flip: bool = False,
    plain: str = "",
) -> None:
    """Predict classes.

    One line per image, with its name and
    its class.

    Args:
        images: Image files.
        top: Number of classes,
            at least one.
        flip: Average over flips: slower.
    """
    typer.echo(f"{[path.name for path in images]} {top} {flip} {plain}")


def invoke(*arguments: str) -> str:
    app = typer.Typer()
    app.command()(with_help(readable_errors(command)))
    return " ".join(CliRunner().invoke(app, arguments, env={"COLUMNS": "200"}).output.split())


def test_the_help_shows_the_docstring_without_its_section_of_arguments() -> None:
    shown = invoke("--help")
    assert "Predict classes. One line per image, with its name and its class." in shown and "Args:" not in shown
    for text in ("Image files.", "Number of classes, at least one.", "Average over flips: slower.", "--plain"):
        assert text in shown


def test_a_sentence_is_not_broken_where_its_docstring_is() -> None:
    app = typer.Typer()
    app.command()(with_help(readable_errors(command)))
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).output
    assert "One line per image, with its name and its class." in shown


def test_positional_parameters_are_arguments_and_keywords_are_options() -> None:
    assert invoke("a.jpg", "b.jpg", "--top", "3", "--flip", "--plain", "x") == "['a.jpg', 'b.jpg'] 3 True x"
    assert "Missing argument" in invoke()
    assert "Invalid value for '--top'" in invoke("a.jpg", "--top", "0")
