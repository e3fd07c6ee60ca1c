"""`covpool paper`: the paper's tables and figures made again."""

from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from covpool.cli._claims import claims_command
from covpool.cli._errors import readable_errors
from covpool.cli._help import with_help
from covpool.cli._output import say, table

app = typer.Typer(no_args_is_help=True)


@app.callback(invoke_without_command=True)
@readable_errors
def before_command(
    context: typer.Context,
    show_list: Annotated[bool, typer.Option("--list", help="List the tables and figures.")] = False,
) -> None:
    """Make the tables and figures of the paper again, with its numbers beside ours."""
    if context.invoked_subcommand is None and show_list:
        _list()


def _list() -> None:
    from covpool.studies.paper import list_items

    Console().print(table(("item", "what it shows"), [(item.name, item.title) for item in list_items()], left=2))


def _table(number: str) -> None:
    """Show a table of the paper.

    Example: covpool paper table 8

    Args:
        number: Number of the table: 1 to 15.
    """
    _show(f"table {number}")


def _figure(number: str) -> None:
    """Show a figure of the paper.

    Example: covpool paper figure 6a

    Args:
        number: Number of the figure, with its panel.
    """
    _show(f"figure {number}")


def _show(name: str) -> None:
    from covpool.studies.paper import find_item

    item = find_item(name)
    say(Console(), f"{item.name}: {item.title}")


SUBCOMMANDS: dict[str, Callable[..., None]] = {"table": _table, "figure": _figure, "claims": claims_command}
for name, command in SUBCOMMANDS.items():
    app.command(name)(with_help(readable_errors(command)))
