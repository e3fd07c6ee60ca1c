"""Readers of data sets in the layouts their owners ship, one module per data set."""

from covpool.data.sets._open import SETS, Splits, open_data

__all__ = [
    "SETS",
    "Splits",
    "open_data",
]
