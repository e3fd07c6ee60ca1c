"""The command line: every command parses its options, calls the library and shows the result."""

import sys
import warnings

from covpool._errors import CovpoolWarning
from covpool.cli._interrupt import interrupts
from covpool.cli._wrap import wrapped


def main() -> None:
    """Entry point of the `covpool` command."""
    interrupts.install()
    _show_own_warnings()
    try:
        try:
            from covpool.cli.app import app
        except ImportError as error:
            sys.exit(f"the covpool command needs packages that are not installed ({error}): pip install 'covpool[all]'")
        app()
    except KeyboardInterrupt:
        interrupts.end()


def _show_own_warnings() -> None:
    """Show covpool's warnings in one line each and those of libraries not at all, unless Python is told otherwise."""
    if not sys.warnoptions:
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", CovpoolWarning)
        setattr(warnings, "formatwarning", _formatted)  # noqa: B010


def _formatted(message: Warning | str, *_: object, **__: object) -> str:
    return wrapped(f"covpool: {message}", sys.stderr) + "\n"
