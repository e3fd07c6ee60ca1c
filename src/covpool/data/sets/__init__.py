"""Readers of data sets in the layouts that their authors ship.

Each public module reads the data set of its name: `read(root, data)` returns its subsets, and `SPLITS` is the number of
official splits where there are several.
"""

from covpool.data.sets._open import Splits, list_sets, open_data

__all__ = [
    "Splits",
    "list_sets",
    "open_data",
]
