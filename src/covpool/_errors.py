"""The errors that users' mistakes raise. Any other exception is a bug in covpool and keeps its traceback."""


class CovpoolError(ValueError):
    """A user's mistake. The message says what was expected, what was given and what to do."""

    __module__ = "covpool"  # where users import it from


class WrongTypeError(CovpoolError, TypeError):
    """An argument of the wrong type."""


class MissingPackageError(CovpoolError, ImportError):
    """An optional dependency is not installed."""


class OutOfResourcesError(CovpoolError, RuntimeError):
    """The work does not fit this machine: not enough memory, or no suitable device."""


class UnsupportedError(CovpoolError, RuntimeError):
    """A valid request that covpool cannot carry out, such as an export whose result differs from the network."""
