"""Users' mistakes end in one readable line."""

import functools
import os
import sys
from collections.abc import Callable

import typer

from covpool._errors import CovpoolError, printable
from covpool.cli._interrupt import INTERRUPTED
from covpool.cli._wrap import wrapped

# How torch says that a tensor is larger than the memory, or than any memory.
BEYOND_MEMORY = ("can't allocate memory", "Storage size calculation overflowed", "integer multiplication overflow")


def readable_errors(command: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that a user's mistake (CovpoolError) or a file error (OSError) ends in one line.

    Running out of memory counts as a mistake too. Any other exception is a bug and keeps its traceback.
    COVPOOL_TRACEBACK=1 in the environment shows every traceback.
    """

    @functools.wraps(command)
    def run(*arguments: object, **options: object) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            typer.echo("stopped", err=True)
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever reads the output has enough of it, as in `covpool list | head -1`
            raise  # typer ends the program without a word
        except Exception as error:
            message = _explain(error)
            if message is None or os.environ.get("COVPOOL_TRACEBACK"):
                raise
            typer.echo(wrapped(f"covpool: {printable(message)}", sys.stderr), err=True)
            raise typer.Exit(error.exit_code if isinstance(error, CovpoolError) else CovpoolError.exit_code) from error

    return run


def _explain(error: Exception) -> str | None:
    """The line to show for a user's mistake; None for a bug."""
    if isinstance(error, (CovpoolError, OSError)):
        return str(error)
    if isinstance(error, UnicodeEncodeError) and error.reason.startswith("surrogates"):  # a name of a file
        return f"names that are written to files must be UTF-8 text; got {error.object!r}: rename it"
    if type(error).__name__ == "OutOfMemoryError":  # torch's; importing torch for its class would take seconds
        return f"the GPU is out of memory ({str(error).split('. ')[0]}): use smaller batches or images, or --device cpu"
    if isinstance(error, MemoryError) or any(words in str(error) for words in BEYOND_MEMORY):
        reason = str(error).partition("\n")[0] or type(error).__name__
        return f"this does not fit into memory ({reason}): use smaller sizes"
    return None
