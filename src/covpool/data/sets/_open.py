"""The data sets by name, and what must be true of any of them before a training starts."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from covpool._check import check_choice
from covpool._errors import CovpoolError
from covpool.data._images import UNKNOWN, Images
from covpool.data._settings import Data
from covpool.data.sets import aircraft, cars, cub, dtd, folder, imagenet, inat2018, indoor67, places365
from covpool.data.sets._layout import PART_NAMES, Parts

SETS: dict[str, Callable[[Path, Data], Parts]] = {
    "folder": folder.parts,
    "imagenet": imagenet.parts,
    "places365": places365.parts,
    "cub": cub.parts,
    "aircraft": aircraft.parts,
    "cars": cars.parts,
    "dtd": dtd.parts,
    "indoor67": indoor67.parts,
    "inat2018": inat2018.parts,
}
NUMBERED = ("dtd",)  # have several official splits, which `data.split` chooses from


@dataclass(frozen=True)
class Splits:
    """What is learnt from and what is judged on; both have the same classes."""

    train: Images
    test: Images


def open_data(data: Data) -> Splits:
    """The pictures of a data set, listed but not read, in its official split.

    Args:
        data: which set, where it lies and which parts are wanted.

    Raises:
        CovpoolError: nothing of the kind lies there, a list is damaged, it has no such split, a part has no pictures, a
            class has none in one of the parts, or a training picture has no class.
    """
    check_choice("data.name", data.name, list(SETS))
    if data.split != 1 and data.name not in NUMBERED:
        raise CovpoolError(
            f"`data.split` chooses one of the numbered splits of {', '.join(NUMBERED)}; got {data.split} for "
            f"{data.name!r}, which has no such: leave it out, or name the data set (data.name=..., --data NAME:FOLDER)"
        )
    root = Path(data.root).expanduser()
    if not data.root or not root.is_dir():
        came = f"there is no folder {root}" if data.root else "it is empty"
        raise CovpoolError(f"`data.root` must be the folder of the data set {data.name!r}; {came}")
    parts = SETS[data.name](root, data)
    splits = Splits(_training(parts, data), _held_out(parts, data))
    _check_pictures(splits, root)
    return splits


def _training(parts: Parts, data: Data) -> Images:
    if data.train_on == "train":
        return parts["train"]
    if "val" not in parts or _held_out_name(parts, data) == "val":
        there = ", ".join(name for name in PART_NAMES if name in parts)
        raise CovpoolError(
            f'`data.train_on` = "train+val" needs a part to test on beside train and val; {data.name} at {data.root} '
            f'has {there}, tested on {_held_out_name(parts, data)}: use train_on = "train", or another test_on'
        )
    return parts["train"] + parts["val"]


def _held_out(parts: Parts, data: Data) -> Images:
    return parts[_held_out_name(parts, data)]


def _held_out_name(parts: Parts, data: Data) -> str:
    """The part to test on; where there is only one, it has both names."""
    return data.test_on if data.test_on in parts else next(name for name in ("test", "val") if name in parts)


def _check_pictures(splits: Splits, root: Path) -> None:
    for name, images in (("training", splits.train), ("test", splits.test)):
        if not len(images):
            raise CovpoolError(f"the {name} part of {root} has no pictures")
        count = Counter(images.targets)
        if UNKNOWN in count:  # a test server knows them
            continue
        empty = [images.classes[c] for c in range(len(images.classes)) if not count[c]]
        if empty:
            listed = ", ".join(empty[:5]) + (f" and {len(empty) - 5} more" if len(empty) > 5 else "")
            raise CovpoolError(
                f"every class must have pictures in training and test; the {name} part of {root} has none of {listed}: "
                "add pictures, or remove the class from the other part too"
            )
    if UNKNOWN in splits.train.targets:
        first = splits.train.paths[splits.train.targets.index(UNKNOWN)]
        raise CovpoolError(f"every training picture must have a class; the lists of {root} give none to {first}")
    if len(splits.train.classes) < 2:
        raise CovpoolError(
            f"there must be two classes or more to tell apart; {root} has {splits.train.classes[0]} alone"
        )
