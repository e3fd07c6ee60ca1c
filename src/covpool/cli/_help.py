"""The help of commands, read from their docstrings."""

import inspect
from collections.abc import Callable
from typing import Annotated, get_args, get_origin

import typer

from covpool._registry import documented_options


def with_help(command: Callable[..., None]) -> Callable[..., None]:
    """Give typer the help of each parameter from the section "Args" of a command's docstring.

    Each paragraph becomes one line, because typer keeps the line breaks of all paragraphs but the first.
    Positional parameters become arguments on the command line, keyword-only ones options. An annotation
    `Annotated[..., typer.Option(...)]` adds what typer needs besides, such as the smallest value.
    """
    parameters = inspect.signature(command).parameters
    notes = documented_options(parameters, [command])
    described = [_describe(one, notes[one.name]) if notes[one.name] else one for one in parameters.values()]
    text = inspect.cleandoc(command.__doc__ or "").partition("\n\nArgs:\n")[0]
    command.__doc__ = "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in text.split("\n\n"))
    setattr(command, "__signature__", inspect.Signature(described))  # noqa: B010
    return command


def _describe(parameter: inspect.Parameter, note: str) -> inspect.Parameter:
    kind, given = parameter.annotation, typer.Argument()
    if get_origin(kind) is Annotated:
        kind, given = get_args(kind)
    elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        given = typer.Option()
    given.help = note
    return parameter.replace(annotation=Annotated[kind, given])
