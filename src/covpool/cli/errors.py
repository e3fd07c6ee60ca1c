"""Users' mistakes end in one readable line."""

import functools
import os
from collections.abc import Callable

import typer

from covpool.data.mistakes import is_ours

MISTAKE, INTERRUPTED = 2, 130  # exit codes; 130 is what shells give to Ctrl-C


def readable_errors(command: Callable[..., None]) -> Callable[..., None]:
    """The same command, ending in one line where an error tells of a mistake.

    Such are the errors that covpool itself raises, and those of files. Any other is a fault of the program, and keeps
    its traceback; COVPOOL_TRACEBACK=1 in the environment gives one to all.
    """

    @functools.wraps(command)
    def run(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except (typer.Exit, typer.Abort):
            raise
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
            if os.environ.get("COVPOOL_TRACEBACK") or not (isinstance(error, OSError) or is_ours(error)):
                raise
            typer.echo(f"covpool: {error}", err=True)
            raise typer.Exit(MISTAKE) from error

    return run
