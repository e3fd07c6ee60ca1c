"""Advice for a folder of images: which pool and image size, and what to expect, from the records."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from PIL import Image, UnidentifiedImageError

from covpool._errors import CovpoolError
from covpool.data import Data
from covpool.data.sets import open_data
from covpool.studies.claims._arm import Arm
from covpool.studies.claims._claims import IMAGES, PER_CLASS, SIZES
from covpool.studies.claims._page import gain
from covpool.studies.claims._records import ArmResult, Results
from covpool.studies.embed import spread

SAMPLE = 200  # most images whose size is read
OWN_SIZE = 224  # of the backbone
CLASSES = {"cub200": 200, "dtd-10": 10}  # number of classes of the data sets on record
SIMILAR = 3  # numbers of images per class that differ by more than this factor say nothing about each other


@dataclass(frozen=True)
class FolderFacts:
    """What the advice depends on: number of classes, training images per class, and sizes in pixels."""

    classes: int
    training: int
    fewest: int
    typical: int
    most: int
    shorter_side: int


@dataclass(frozen=True)
class Expected:
    """The gain of a pool over average pooling on a data set on record.

    Attributes:
        data: Name of the data set.
        first: Arm of the pool.
        second: Arm of average pooling.
        top1: Accuracy of both.
        interval: 95 % interval of the difference.
        lengths: Lengths of the vectors of both.
        per_class: Training images per class.
    """

    data: str
    first: Arm
    second: Arm
    top1: tuple[float, float]
    interval: tuple[float, float]
    lengths: tuple[int, int]
    per_class: int

    @property
    def points(self) -> float:
        """The gain in points."""
        return 100 * (self.top1[0] - self.top1[1])


@dataclass(frozen=True)
class Advice:
    """The recommendation for a folder.

    Attributes:
        pool: Recommended pool; "auto" to let cross-validation choose.
        size: Recommended image size.
        reason: Why, in a sentence.
        expected: The gains on record that it rests on, the most similar data set first.
        command: The command to run.
    """

    pool: str
    size: int
    reason: str
    expected: tuple[Expected, ...]
    command: str


def describe_images(data: Data) -> FolderFacts:
    """Count the classes and training images of a data set, and read the sizes of some images."""
    images = open_data(data).train
    counts = [images.targets.count(target) for target in set(images.targets)]
    sample = spread(len(images), SAMPLE)
    sides = _shorter_sides([images.paths[i] for i in sample])
    if not sides:
        raise CovpoolError(
            f"none of {len(sample)} images, evenly spread over the training images, can be read: check the folder"
        )
    return FolderFacts(len(counts), len(images), min(counts), round(median(counts)), max(counts), round(median(sides)))


def advise(folder: FolderFacts, results: Results, root: str) -> Advice:
    """Recommend a pool and an image size for a folder.

    The gain comes from the data set on record with the most similar number of classes, at the most similar number of
    images per class. The image size is the one with the best accuracy on held-out training images there.

    Args:
        folder: Description of the images.
        results: The records.
        root: The folder as it is typed, for the command.
    """
    similar = sorted(CLASSES, key=lambda name: _apart(CLASSES[name], folder.classes))
    names = [name for name in similar if name in results]
    expected = tuple(found for name in names if (found := _expected(name, folder, results[name])) is not None)
    if not expected:
        raise CovpoolError("there are no records to give advice from: reinstall covpool, or give --records FOLDER")
    best = expected[0]
    low, high = best.interval
    size = best.first.size if best.first.size != OWN_SIZE else _best_size(results[best.data])
    if _apart(best.per_class, folder.typical) > math.log(SIMILAR):
        pool, reason = "auto", f"no record has about {folder.typical} images per class"
    elif low > 0:
        pool, reason = "isqrt", f"on {best.data}, iSQRT-COV is better than average pooling"
    elif high < 0:
        pool, size, reason = "avg", OWN_SIZE, f"on {best.data}, average pooling is better than iSQRT-COV"
    else:
        pool, reason = "auto", f"on {best.data}, iSQRT-COV and average pooling cannot be told apart"
    chosen = "" if pool == "auto" else f" pool={pool} size={size}"
    return Advice(pool, size, reason, expected, f"covpool fit {root}{chosen}")


def _expected(name: str, folder: FolderFacts, arms: dict[str, ArmResult]) -> Expected | None:
    """The gain with the number of images per class on record that is nearest to the folder's."""
    size = _best_size(arms)
    counts = {IMAGES[name]: 0, **{count: count for count in PER_CLASS}}
    for count in sorted(counts, key=lambda count: _apart(count, folder.typical)):
        few = counts[count]
        for flips in (True, False):
            first, second = (
                Arm(pool=pool, per_class=few, size=OWN_SIZE if few else size, flips=flips) for pool in ("isqrt", "avg")
            )
            found = gain(arms, first, second)
            if found is not None:
                interval, a, b = found
                lengths = (arms[first.name].length, arms[second.name].length)
                return Expected(name, first, second, (a, b), interval, lengths, count)
    return None


def _best_size(arms: dict[str, ArmResult]) -> int:
    """The image size at which iSQRT-COV is best on held-out training images."""
    scores: dict[bool, dict[int, float]] = {}
    for size in (OWN_SIZE, *SIZES):
        for flips in (True, False):
            found = arms.get(Arm(pool="isqrt", size=size, flips=flips).name)
            if found is not None and Arm(pool="avg", size=size, flips=flips).name in arms:
                scores.setdefault(flips, {})[size] = found.held_out or 0.0
    most = max(scores.values(), key=len, default={OWN_SIZE: 0.0})  # sizes are compared within one protocol
    return max(most, key=lambda size: (most[size], -size))


def _shorter_sides(paths: Iterable[Path]) -> list[int]:
    found = []
    for path in paths:
        try:
            with Image.open(path) as image:
                found.append(min(image.size))
        except (OSError, UnidentifiedImageError):
            continue
    return found


def _apart(a: int, b: int) -> float:
    """How far two counts are apart: the logarithm of their ratio."""
    return abs(math.log(a / b))
