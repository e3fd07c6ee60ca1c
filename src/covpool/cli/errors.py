"""Users' mistakes end in one readable line."""

import functools
import os
from collections.abc import Callable

import typer

from covpool._errors import CovpoolError

MISTAKE, INTERRUPTED = 2, 130  # exit codes; 130 is what shells give to Ctrl-C


def readable_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that a user's mistake (CovpoolError) or a file error (OSError) ends in one line.

    Any other exception is a bug and keeps its traceback. COVPOOL_TRACEBACK=1 in the environment shows every traceback.
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
        except (CovpoolError, OSError) as error:
            if os.environ.get("COVPOOL_TRACEBACK"):
                raise
            typer.echo(f"covpool: {error}", err=True)
            raise typer.Exit(MISTAKE) from error

    return run
