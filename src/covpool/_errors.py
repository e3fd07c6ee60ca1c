"""The errors that users' mistakes raise, and the checks of arguments that raise them without importing torch.

A check raises once, at the public edge, and says what was expected, what came and what to do. Any other exception is a
bug in covpool and keeps its traceback.
"""

import difflib
import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any


class CovpoolError(ValueError):
    """A user's mistake. The message says what was expected, what was given and what to do."""

    exit_code = 2  # of a command that ends with it
    __module__ = "covpool"  # where users import it from


class DivergedError(CovpoolError):
    """The loss of a training is not finite. `covpool train` then ends with a status of its own."""

    exit_code = 3


class WrongTypeError(CovpoolError, TypeError):
    """An argument of the wrong type."""


class MissingPackageError(CovpoolError, ImportError):
    """An optional dependency is not installed."""


class OutOfResourcesError(CovpoolError, RuntimeError):
    """The work does not fit this machine: not enough memory, or no suitable device."""


class CovpoolWarning(UserWarning):
    """Something is less accurate than a user may expect, or different. The command line shows no other warnings."""


class UnsupportedError(CovpoolError, RuntimeError):
    """A valid request that covpool cannot carry out, such as an export whose result differs from the network."""


# Control characters but tab and newline, halves of surrogate pairs, and marks that reverse the direction of text.
OBEYED_BY_TERMINALS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Write characters that a terminal would obey, or cannot show, as escapes; names of files may contain them.

    >>> printable("cat\x1b[2J")
    'cat\\x1b[2J'
    """
    return OBEYED_BY_TERMINALS.sub(lambda found: repr(found[0])[1:-1], text)


def check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Require one of `choices`; the message names the nearest one."""
    if value not in choices:
        raise CovpoolError(f"`{name}` must be one of {list(choices)}; got {value!r}{did_you_mean(value, choices)}")


def did_you_mean(value: object, choices: Iterable[object]) -> str:
    """Return ` (did you mean 'x'?)`, or an empty string when no choice is close."""
    near = difflib.get_close_matches(str(value), [str(c) for c in choices], n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def check_positive_int(name: str, value: object) -> None:
    """Require an integer of at least one that fits 64 bits; a bool is not an integer here."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongTypeError(f"`{name}` must be a positive integer; got {value!r} ({type(value).__name__})")
    if value < 1:
        raise CovpoolError(f"`{name}` must be a positive integer; got {value}")
    if value >= 2**63:
        raise CovpoolError(f"`{name}` must be below 2^63; got {value}")


def check_utf8(name: str, text: str) -> None:
    """Require text that can be written to a file; the name of a file on disk may be any bytes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise CovpoolError(f"{name} must be UTF-8 text, so that it can be written to files; got {text!r}") from None


def require(module: str, extra: str) -> Any:
    """Import an optional dependency; the error names the extra to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackageError(f"this needs {module}: pip install 'covpool[{extra}]'") from error
