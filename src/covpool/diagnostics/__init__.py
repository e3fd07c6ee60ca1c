"""Looking inside a network: where a NaN began."""

from covpool.diagnostics.finite import NonFiniteError, check_finite

__all__ = ["NonFiniteError", "check_finite"]
