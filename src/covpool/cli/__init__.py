"""The command line: every command parses its options, calls the library and shows the result."""

import sys

from covpool.cli._interrupt import interrupts


def main() -> None:
    """Entry point of the `covpool` command."""
    interrupts.install()
    try:
        try:
            from covpool.cli.app import app
        except ImportError as error:
            sys.exit(f"the covpool command needs packages that are not installed ({error}): pip install 'covpool[all]'")
        app()
    except KeyboardInterrupt:
        interrupts.end()
