"""`covpool paper`: the paper's tables and figures made again, and its claims with verdicts."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from covpool.cli._claims import claims_command
from covpool.cli._errors import readable_errors
from covpool.cli._help import with_help
from covpool.cli._paper_items import RUNS, item_command, show_items
from covpool.cli._trained import trained_command

app = typer.Typer(no_args_is_help=True)


@app.callback(invoke_without_command=True)
@readable_errors
def before_command(
    context: typer.Context,
    show_list: Annotated[bool, typer.Option("--list", help="List the tables and figures, and what is done.")] = False,
    runs: Annotated[Path, typer.Option(help="With --list: folder of the runs.")] = RUNS,
) -> None:
    """Reproduce the paper's tables and figures, with its numbers next to ours."""
    if context.invoked_subcommand is None and show_list:
        show_items(runs)


SUBCOMMANDS: dict[str, Callable[..., None]] = {
    "table": item_command("table"),
    "figure": item_command("figure"),
    "claims": claims_command,
    "trained": trained_command,
}
for name, command in SUBCOMMANDS.items():
    app.command(name)(with_help(readable_errors(command)))
