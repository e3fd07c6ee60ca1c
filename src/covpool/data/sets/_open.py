"""Data sets by name, and the checks that every data set must pass before training starts."""

import importlib
import pkgutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from covpool._errors import CovpoolError, check_choice
from covpool.data._images import UNKNOWN, Images
from covpool.data._settings import Data
from covpool.data.sets._layout import SUBSETS, Subsets
from covpool.data.sets._random import RandomSplit, split_at_random

SHOWN = 5  # classes named in a message


@dataclass(frozen=True)
class Splits:
    """The training set, the test set and perhaps a validation set; all have the same classes.

    Attributes:
        train: The training set.
        test: The test set.
        random: How the images of a flat folder were split; None for a split that the data set comes with.
        validation: Images that are neither trained nor tested on, to choose the best epoch with; None without any.
    """

    train: Images
    test: Images
    random: RandomSplit | None = None
    validation: Images | None = None

    def parts(self) -> dict[str, Images]:
        """The sets that there are, by name."""
        sets = {"train": self.train, "test": self.test, "validation": self.validation}
        return {name: images for name, images in sets.items() if images is not None}


def list_sets() -> list[str]:
    """The names of all data sets, found without importing their readers.

    >>> "cub" in list_sets()
    True
    """
    names = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name for name in names if not name.startswith("_"))


def open_data(data: Data) -> Splits:
    """List the images of a data set in its official split, without reading them.

    Args:
        data: Name and folder of the data set, and which subsets to train and test on.

    Raises:
        CovpoolError: The folder does not contain this data set, a list is damaged, the split or subset does not exist,
            a subset has no images or no images of some class, or a training image has no class.
    """
    check_choice("data.name", data.name, list_sets())
    reader = importlib.import_module(f"covpool.data.sets.{data.name}")
    _check_split(data, getattr(reader, "SPLITS", 1))
    root = Path(data.root).expanduser()
    if not data.root:
        raise CovpoolError("no images are named: add --data FOLDER (or data.root=FOLDER)")
    if not root.is_dir():
        raise CovpoolError(f"there is no folder {root}")
    subsets: Subsets = reader.read(root, data)
    tested = _test_subset(subsets, data)
    find_random = getattr(reader, "random_split", None)
    random = find_random(root, data) if find_random else None
    train, validation = _hold_out(_training_set(subsets, tested, data), root, data)
    if validation is None and data.train_on == "train" and tested == "test":
        validation = _known(subsets.get("val"))
    splits = Splits(train, subsets[tested], random, validation)
    _check_images(splits, root)
    return splits


def _check_split(data: Data, splits: int) -> None:
    if splits == 1 and data.split != 1:
        raise CovpoolError(
            f"`data.split` must be 1 for a data set with one official split; got {data.split} for {data.name!r}: "
            "leave it out, or name the data set (data.name=..., --data NAME:FOLDER)"
        )
    check_choice("data.split", data.split, range(1, splits + 1))


def _test_subset(subsets: Subsets, data: Data) -> str:
    """The subset to test on; where only one of "test" and "val" exists, it serves as both."""
    return data.test_on if data.test_on in subsets else next(name for name in ("test", "val") if name in subsets)


def _training_set(subsets: Subsets, tested: str, data: Data) -> Images:
    if data.train_on == "train":
        return subsets["train"]
    if "val" not in subsets or tested == "val":
        there = ", ".join(name for name in SUBSETS if name in subsets)
        raise CovpoolError(
            f'`data.train_on` = "train+val" needs a test set besides train and val; {data.name} at {data.root} '
            f'has {there} and is tested on {tested}: use train_on = "train", or another test_on'
        )
    return subsets["train"] + subsets["val"]


def _hold_out(train: Images, root: Path, data: Data) -> tuple[Images, Images | None]:
    """Split a validation set from the training set, if the settings ask for it."""
    if data.validation_fraction is None:
        return train, None
    split = RandomSplit(data.split_seed or 0, data.validation_fraction)
    held_out = split_at_random(train, root, split)
    return held_out["train"], held_out["test"]


def _known(images: Images | None) -> Images | None:
    """The images, unless there are none or some have no class."""
    return images if images is not None and len(images) and UNKNOWN not in images.targets else None


def _check_images(splits: Splits, root: Path) -> None:
    for name, images in (("training", splits.train), ("test", splits.test)):
        if not len(images):
            raise CovpoolError(f"the {name} set of {root} must have images; it has none")
        _check_classes(images, f"the {name} set of {root}")
    if UNKNOWN in splits.train.targets:
        first = splits.train.paths[splits.train.targets.index(UNKNOWN)]
        raise CovpoolError(f"every training image must have a class; the lists of {root} give none to {first}")
    if len(splits.train.classes) < 2:
        raise CovpoolError(f"a data set must have at least two classes; {root} has only {splits.train.classes[0]}")


def _check_classes(images: Images, where: str) -> None:
    count = Counter(images.targets)
    empty = [name for target, name in enumerate(images.classes) if not count[target]]
    if empty and UNKNOWN not in count:  # the classes of some test sets are not public
        names = ", ".join(empty[:SHOWN]) + (f" and {len(empty) - SHOWN} more" if len(empty) > SHOWN else "")
        raise CovpoolError(
            f"every class must have training and test images; {where} has none of {names}: "
            "add images, or remove the class from the other set too"
        )
