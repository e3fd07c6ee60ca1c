"""Readers of data sets in the layouts that their authors ship.

Each public module reads the data set of its name: `read(root, data)` returns its subsets, `SPLITS` is the number of
official splits where there are several, and `random_split(root, data)` tells how images were split at random.
"""

from covpool.data.sets._open import Splits as Splits
from covpool.data.sets._open import list_sets as list_sets
from covpool.data.sets._open import open_data as open_data
from covpool.data.sets._random import RandomSplit as RandomSplit
