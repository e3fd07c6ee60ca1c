"""Readers of data sets in the layouts that their authors ship.

Each public module reads the data set of its name: `read(root, data)` returns its subsets, `SPLITS` is the number of
official splits where there are several, and `random_split(root, data)` tells how images were split at random.
"""

from covpool.data.sets._open import Splits, list_sets, open_data
from covpool.data.sets._random import RandomSplit

__all__ = [
    "RandomSplit",
    "Splits",
    "list_sets",
    "open_data",
]
