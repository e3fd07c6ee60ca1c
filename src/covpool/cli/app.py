"""The `covpool` application and its commands.

The module of a command defines its options and help. It imports torch and the rest of covpool when the command runs,
so that `covpool --help` answers at once.
"""

import importlib
from typing import Annotated

import typer

import covpool
from covpool.cli._errors import readable_errors
from covpool.cli._help import with_help

COMMANDS = (
    *("fit", "advise", "train", "eval", "predict", "report", "sweep", "probe", "embed", "neighbours"),
    *("list", "show", "convert", "export", "bench", "demo", "doctor"),
)
GROUPS = ("paper",)  # commands with subcommands of their own

app = typer.Typer(
    epilog="Set COVPOOL_TRACEBACK=1 in the environment to see the traceback of every error.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for name in COMMANDS:
    app.command(name)(with_help(readable_errors(importlib.import_module(f"covpool.cli.{name}").command)))
for name in GROUPS:
    app.add_typer(importlib.import_module(f"covpool.cli.{name}").app, name=name)


def _show_version(asked: bool) -> None:
    if asked:
        typer.echo(f"covpool {covpool.__version__}")
        raise typer.Exit


@app.callback()
@readable_errors
def before_command(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE",
            help="Import this Python module, which registers pools of your own, before the command runs. "
            "Can be given several times.",
        ),
    ] = None,
) -> None:
    """Global covariance (second-order) pooling for PyTorch."""
    if plugin:
        from covpool.pools import load_plugins

        load_plugins(plugin)
