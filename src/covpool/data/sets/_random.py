"""Splitting a list of images at random, the same way on every machine."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from covpool._errors import CovpoolError
from covpool.data._images import Images
from covpool.data.sets._layout import Subsets

FRACTION = 0.2  # of the images of a class, to test on


@dataclass(frozen=True)
class RandomSplit:
    """The seed of a split, and the fraction of each class that is tested on."""

    seed: int = 0
    fraction: float = FRACTION


def split_at_random(images: Images, root: Path, split: RandomSplit) -> Subsets:
    """Split images into a training set and a test set, class by class.

    The split depends only on the names of the files below `root`, the seed and the fraction: in each class, the files
    whose names have the smallest hashes are tested on. Every class has at least one image in both sets.

    Args:
        images: All images.
        root: Folder that the names are relative to.
        split: The seed and the fraction.
    """
    by_class: list[list[int]] = [[] for _ in images.classes]
    for i, target in enumerate(images.targets):
        by_class[target].append(i)
    tested: set[int] = set()
    for name, members in zip(images.classes, by_class, strict=True):
        if len(members) < 2:
            raise CovpoolError(
                f"every class must have two images or more, to train on and to test on; {root / name} has "
                f"{len(members) or 'none'}: add images, or remove the folder"
            )
        count = min(max(1, round(split.fraction * len(members))), len(members) - 1)
        tested |= set(sorted(members, key=lambda i: _rank(images.paths[i], root, split.seed))[:count])
    every = range(len(images))
    return {
        "train": images.select([i for i in every if i not in tested]),
        "test": images.select([i for i in every if i in tested]),
    }


def _rank(path: Path, root: Path, seed: int) -> bytes:
    name = os.fsencode(path.relative_to(root).as_posix())
    return hashlib.sha256(b"%d/%s" % (seed, name)).digest()
