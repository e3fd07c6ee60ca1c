"""The command line: thin, every command calls the library."""

import sys


def main() -> None:
    """Entry point of the `covpool` command."""
    try:
        from covpool.cli.app import app
    except ImportError as error:
        sys.exit(f"the covpool command needs packages that are not installed ({error}): pip install 'covpool[all]'")
    except KeyboardInterrupt:  # torch takes seconds to import
        sys.exit(130)
    app()
