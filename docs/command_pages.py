"""Hook of mkdocs: the reference of the command line, from the help of the commands."""

import inspect
from typing import Any

import typer

from covpool.cli.app import app

MARK = "<!-- commands of covpool -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the mark by a section for each command."""
    return markdown.replace(MARK, commands()) if MARK in markdown else markdown


def commands() -> str:
    """Return the usage, the text and the options of every command, also of those in groups."""
    group: Any = typer.main.get_command(app)
    return "\n\n".join(_section(f"covpool {name}", command) for name, command in group.commands.items())


def _section(name: str, command: Any, level: int = 2) -> str:
    if hasattr(command, "commands"):
        parts = [_section(f"{name} {key}", one, level + 1) for key, one in command.commands.items()]
        return "\n\n".join([f"{'#' * level} {name}", _text(command.help), *parts])
    given = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join([name, *map(_placeholder, given), "[OPTIONS]"])
    rows = [f"| {_names(one)} | {' '.join(_text(one.help).split())} |" for one in command.params]
    table = "\n".join(["| argument | meaning |", "|---|---|", *rows]) if rows else ""
    return f"{'#' * level} {name}\n\n```\n{usage}\n```\n\n{_text(command.help)}\n\n{table}"


def _placeholder(argument: Any) -> str:
    word = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return word if argument.required else f"[{word}]"


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_placeholder(parameter)}`"
    return ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))


def _text(words: str | None) -> str:
    return inspect.cleandoc(words or "").replace("|", "\\|").replace("<", "&lt;")
